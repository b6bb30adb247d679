#pragma once

namespace ampd::shim {

// These functions act on every process below the calling process, which is the subreaper of all of them. They send
// signals through pidfds, after checking parent and start time once more. Single-threaded: owner the shim's loop.

// Sends `signal` to all these processes. Returns how many there were.
int SignalDescendants(int signal);

// Sends SIGSTOP until every process found is stopped, so that a process that was just forked does not escape.
void StopDescendants();

// Sends SIGKILL to all these processes. Returns true if none is left; otherwise call it again after the next SIGCHLD.
bool KillDescendants();

}  // namespace ampd::shim
