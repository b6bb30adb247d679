#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ampd::agent {

// Removes `path` below `root` with everything in it, then the folders above it that have become empty. Succeeds if
// `path` does not exist. Never touches anything outside of the root and never follows a symbolic link, even if the tree
// changes meanwhile. INVALID_ARGUMENT if `path` leads out of the root or through a symbolic link.
absl::Status RemoveBelow(const std::string& root, const std::string& path);

// Removes checkpoints, and whole folders of jobs and attempts, below the checkpoint root. The server repeats a request
// only until a report shows that the agent has received it, so the agent must remember the request. The remover stores
// the paths that can't be removed yet in a file, and retries them, also after a restart of the agent:
//
//   removals := (path '\n')*        paths below the checkpoint root; a path contains no '\n'
//
// Thread-compatible.
class CheckpointRemover {
 public:
  using Pending = std::map<std::string, absl::Duration>;  // time (since boot) of the next try, by path

  // `log` receives one line for each new failure.
  CheckpointRemover(std::string root, std::string file, std::function<void(const std::string&)> log);

  // Loads the removals that an earlier agent left pending.
  void Load();

  // The removals that could not be carried out yet.
  const Pending& pending() const { return pending_; }

  // Removes `paths`. Paths that could not be removed, and all paths in `later`, become pending removals. These are
  // stored on disk before Remove returns. `now`: the time since boot.
  void Remove(const std::vector<std::string>& paths, const std::vector<std::string>& later, absl::Duration now);

 private:
  void Store(Pending pending);

  const std::string root_;
  const std::string file_;
  const std::function<void(const std::string&)> log_;
  Pending pending_;
  std::set<std::string> refused_;  // paths that the last Remove rejected
  bool is_stored_ = true;
};

// Returns the paths that are due for a retry at `now`, a time since boot.
std::vector<std::string> DueAt(const CheckpointRemover::Pending& pending, absl::Duration now);

}  // namespace ampd::agent
