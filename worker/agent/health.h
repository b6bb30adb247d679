#pragma once

namespace ampd::agent {

// Whether the command line is `ampd-worker health`, and not the command line that starts a worker.
bool IsHealthCommand(int argc, const char* const* argv);

// Runs `ampd-worker health`, for the health checks of containers. It requests /readyz from the worker of this host, and
// accepts the flags and the configuration file of that worker. Prints one line, and returns the exit code of the
// process: 0 if the worker is ready (it holds a valid lease of the server); 1 if it is not ready or does not answer; 2
// for wrong usage. REQUIRES: SIGPIPE is ignored.
int RunHealthCommand(int argc, const char* const* argv);

}  // namespace ampd::agent
