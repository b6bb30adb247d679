#pragma once

namespace ampd::agent {

// Whether the command line is `ampd-worker health` rather than that of a worker.
bool IsHealthCommand(int argc, const char* const* argv);

// Runs `ampd-worker health`, which asks the worker of this host for its page /readyz: for the health checks of
// containers. It takes the flags and the file of that worker. Prints one line, and returns the exit code of the
// process: 0 if the worker is ready, which means that it holds a lease of the server; 1 if it is not, or does not
// answer; 2 for wrong usage. REQUIRES: SIGPIPE is ignored.
int RunHealthCommand(int argc, const char* const* argv);

}  // namespace ampd::agent
