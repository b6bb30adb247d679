#pragma once

namespace ampd::server {

// These functions run `ampd-server backup`, `ampd-server restore` and `ampd-server check`. The first argument is the
// command's name. They return the exit code of the process.
int RunBackup(int argc, const char* const* argv);
int RunRestore(int argc, const char* const* argv);
int RunCheck(int argc, const char* const* argv);

}  // namespace ampd::server
