#pragma once

namespace ampd::server {

// Run `ampd-server backup`, `ampd-server restore` and `ampd-server check`. The first of the arguments is the command's
// name. Return the exit code of the process.
int RunBackup(int argc, const char* const* argv);
int RunRestore(int argc, const char* const* argv);
int RunCheck(int argc, const char* const* argv);

}  // namespace ampd::server
