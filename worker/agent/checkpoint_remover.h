#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ampd::agent {

// Removes what is below `root` at `path`, with all that is in it, and the folders it was in as far as they are empty
// then. What is not there is removed already. Nothing outside of the root is touched and no symbolic link followed,
// whatever happens there meanwhile: INVALID_ARGUMENT for a path that leaves the root or goes by a link.
absl::Status RemoveBelow(const std::string& root, const std::string& path);

// Removes checkpoints, and whole folders of jobs and attempts, below the checkpoint root. The server asks until a
// report reflects that the agent knows; from then on it is the agent's to see it done, so what can't be removed yet is
// kept in a file and tried again, also by the next agent:
//
//   removals := (path '\n')*        below the checkpoint root, without a '\n'
//
// Single-threaded: owner the agent's loop.
class CheckpointRemover {
 public:
  // `log` gets one line for each trouble, once.
  CheckpointRemover(std::string root, std::string file, std::function<void(const std::string&)> log);

  // Takes up what an earlier agent left.
  void Load();

  // What was asked for before and should be tried again at `now`, since boot.
  std::vector<std::string> Due(absl::Duration now) const;

  // Removes each of `paths`; keeps those that could not be removed, and `later`, on disk when it returns.
  void Remove(const std::vector<std::string>& paths, const std::vector<std::string>& later, absl::Duration now);

 private:
  using Waiting = std::map<std::string, absl::Duration>;  // path to when it is tried again, since boot

  void Take(Waiting waiting);

  const std::string root_;
  const std::string file_;
  const std::function<void(const std::string&)> log_;
  Waiting waiting_;
  std::set<std::string> refused_;  // by the last Remove
  bool is_stored_ = true;
};

}  // namespace ampd::agent
