#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <vector>

#include "base/io/file.h"

namespace ampd {

// Reaps child processes that have ended, so that none stays a zombie, which counts against the user's limit of
// processes. It waits for each child by its pid, so it takes no child from a library that starts processes itself.
// Thread-compatible.
class ChildReaper {
 public:
  // `pid` is a child of this process that nobody else waits for.
  void Add(pid_t pid);

  // Reaps all that have ended. Does not block.
  void Reap();

  // Descriptors that become readable when a child ends, for poll. A child whose descriptor could not be opened is
  // missing here; the next Reap still reaps it.
  std::vector<int> Descriptors() const;

  size_t num_running() const { return children_.size(); }

 private:
  std::map<pid_t, UniqueFd> children_;  // Maps each pid to its pidfd.
};

// Reaps ended children that this process did not start. It inherits those as the first process of a container, as a
// subreaper, or if another program replaced itself with this one by exec. Children for which `is_own` returns true are
// left to their owners. Does not block.
void ReapAdopted(const std::function<bool(pid_t)>& is_own);

}  // namespace ampd
