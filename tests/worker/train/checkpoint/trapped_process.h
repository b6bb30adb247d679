#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ampd::train {

// What happens at the call number `at`, from 1, of those that change files: instead of it the process is killed
// (`error` 0) or the call fails with `error`. 0: nothing happens.
struct Fate {
  int at = 0;
  int error = 0;
};

struct TrappedRun {
  bool supported = false;          // by this kernel, for this user; if not, `body` was not run
  std::vector<std::string> calls;  // that change files, by name, in their order, the one of the fate included
  bool killed = false;
  int exit_code = 0;  // what `body` returned, if it did
};

// Runs `body` in a process of its own, all of whose threads' system calls that create, write, sync, rename or remove
// files stop before the kernel does anything for them (seccomp's user notifications), so that each can be counted and
// given its fate. REQUIRES: the calling process has one thread.
TrappedRun RunTrapped(const Fate& fate, const std::function<int()>& body);

}  // namespace ampd::train
