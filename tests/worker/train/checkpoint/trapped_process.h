#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ampd::train {

// What happens at call number `at`, counted from 1, of the calls that change files: the process is killed instead
// (`error` 0), or the call fails with `error`. With `at` 0, nothing happens.
struct Fate {
  int at = 0;
  int error = 0;
};

struct TrappedRun {
  bool supported = false;          // By this kernel, for this user; if not, `body` was not run.
  std::vector<std::string> calls;  // Names of the calls that change files, in order, including the one with the fate.
  bool killed = false;
  int exit_code = 0;  // Return value of `body`, if it returned.
};

// Runs `body` in a separate process. On every thread, system calls that create, write, sync, rename or remove files
// stop before the kernel acts (seccomp's user notifications), so that each can be counted and given its fate. REQUIRES:
// the calling process has one thread.
TrappedRun RunTrapped(const Fate& fate, const std::function<int()>& body);

}  // namespace ampd::train
