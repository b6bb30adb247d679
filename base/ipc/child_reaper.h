#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <vector>

#include "base/io/file.h"

namespace ampd {

// Reaps child processes that have ended, so that they do not stay zombies, which count against the user's limit of
// processes. It waits for each added child by its pid, so it never reaps a child of a library that starts processes
// itself. Thread-compatible.
class ChildReaper {
 public:
  // Adds a child to reap when it ends. REQUIRES: `pid` is a child of this process, and no other code waits for it.
  void Add(pid_t pid);

  // Reaps all added children that have ended. Does not block.
  void Reap();

  // Descriptors to pass to poll(2): each becomes readable when one of the added children ends. A child whose descriptor
  // could not be opened is missing here; the next Reap still reaps it.
  std::vector<int> Descriptors() const;

  size_t num_running() const { return children_.size(); }

 private:
  std::map<pid_t, UniqueFd> children_;  // Maps each pid to its pidfd.
};

// Reaps ended children that this process did not start. A process gets such children in three cases: it is the first
// process of a container; it is a subreaper; or it took the place, by exec, of a program that had children. Does not
// reap children for which `is_own` returns true, because other code waits for them. Does not block.
void ReapAdopted(const std::function<bool(pid_t)>& is_own);

}  // namespace ampd
