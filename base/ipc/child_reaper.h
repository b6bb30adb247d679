#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <vector>

#include "base/io/file.h"

namespace ampd {

// Takes the kernel's records of child processes that have ended, so that none stays behind as a zombie, which counts
// against the user's limit of processes. Each child is waited for by its pid: a library that starts processes itself
// loses nothing. Thread-compatible.
class ChildReaper {
 public:
  // `pid` is a child of this process that nobody else waits for.
  void Add(pid_t pid);

  // Reaps all that have ended. Does not block.
  void Reap();

  // Descriptors that become readable when a child ends, for poll. A child whose descriptor could not be opened has
  // none; the next Reap takes it all the same.
  std::vector<int> Descriptors() const;

  size_t num_running() const { return children_.size(); }

 private:
  std::map<pid_t, UniqueFd> children_;  // to its pidfd
};

// Reaps ended children that this process did not start: it gets those as the first process of a container, as a
// subreaper, or when another program made way for it with exec. `is_own` tells which children others wait for; those
// stay. Does not block.
void ReapAdopted(const std::function<bool(pid_t)>& is_own);

}  // namespace ampd
