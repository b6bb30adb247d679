#pragma once

namespace ampd::shim {

// Everything below the calling process, which is the subreaper of all of it. Signals go through pidfds, after parent
// and start time were looked at again. Single-threaded: owner the shim's loop.

// Sends `signal` to all. Gives how many were there.
int SignalDescendants(int signal);

// SIGSTOP until every one found is stopped, so that one which was just forked does not escape.
void StopDescendants();

// SIGKILL to all. True when none is left; otherwise call again after the next SIGCHLD.
bool KillDescendants();

}  // namespace ampd::shim
