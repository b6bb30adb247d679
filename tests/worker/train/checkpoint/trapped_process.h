#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ampd::train {

// The fault that a process meets at one of its system calls that change files, namely at call number `at`, counted from
// 1. If `error` is 0, the process is killed in place of the call; otherwise the call fails with `error`, an errno. If
// `at` is 0, there is no fault.
struct Fate {
  int at = 0;
  int error = 0;
};

struct TrappedRun {
  bool supported = false;  // Whether this kernel lets this user trap calls. If not, `body` was not run.
  std::vector<std::string>
      calls;  // The calls that change files, by name and in order, with the one that met the fault.
  bool killed = false;
  int exit_code = 0;  // Return value of `body`, if it returned.
};

// Runs `body` in a separate process. Before the kernel carries out a system call that creates, writes, syncs, renames
// or removes a file, on any thread, the call stops (seccomp's user notifications), so that it is counted and can meet
// the fault `fate`. REQUIRES: the calling process has one thread.
TrappedRun RunTrapped(const Fate& fate, const std::function<int()>& body);

}  // namespace ampd::train
