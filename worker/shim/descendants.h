#pragma once

// Signals the descendants: all processes below the calling process, which must be the subreaper of all of them. Signals
// go through pidfds, after the process's start time was compared again. Single-threaded; owner: the shim's loop.
namespace ampd::shim {

// Sends `signal` to all descendants. Returns the number of descendants found.
int SignalDescendants(int signal);

// Stops all descendants. Sends SIGSTOP until every descendant found is stopped, so that a newly forked one does not
// escape.
void StopDescendants();

// Kills all descendants. Returns true if none is left; if some are, call it again after the next SIGCHLD.
bool KillDescendants();

}  // namespace ampd::shim
