#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ampd::train {

// A fault that a process meets at one of its system calls that change files. `at` is the number of this call, counted
// from 1; 0 means no fault. If `error` is 0, the process is killed instead of making the call. Otherwise the call fails
// with the errno `error`.
struct Fate {
  int at = 0;
  int error = 0;
};

struct TrappedRun {
  bool supported = false;  // Whether the kernel lets this user trap calls. If false, `body` did not run.
  std::vector<std::string>
      calls;  // The calls that change files, by name and in order, with the one that met the fault.
  bool killed = false;
  int exit_code = 0;  // Return value of `body`, if `body` returned.
};

// Runs `body` in a separate process. Every system call that creates, writes, syncs, renames or removes a file, on any
// thread, is stopped before the kernel carries it out (seccomp's user notifications). There it is counted, and the call
// with the number `fate.at` meets the fault. REQUIRES: the calling process has one thread.
TrappedRun RunTrapped(const Fate& fate, const std::function<int()>& body);

}  // namespace ampd::train
