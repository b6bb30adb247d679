#pragma once

// Signals the descendants: all processes below the calling process, which must be the subreaper of all of them. Each
// signal is sent through a pidfd, and only if the process's start time is still the same, so that no other process gets
// it. Single-threaded; owner: the shim's loop.
namespace ampd::shim {

// Sends `signal` to all descendants. Returns the number of descendants found.
int SignalDescendants(int signal);

// Stops all descendants. Sends SIGSTOP until every descendant found is stopped, so that a newly forked process does not
// escape.
void StopDescendants();

// Kills all descendants. Returns true if no descendant is left. Otherwise call it again after the next SIGCHLD.
bool KillDescendants();

}  // namespace ampd::shim
