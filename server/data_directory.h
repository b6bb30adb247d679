#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ampd::server {

// Makes the folder, for its owner alone, unless it is there. FAILED_PRECONDITION (reason DATA_DIRECTORY_UNUSABLE).
absl::Status MakeDataDirectory(const std::string& path);

// Tells whether a folder and files in it are still those that they were, by the numbers of their inodes.
// Thread-compatible.
class FolderWatch {
 public:
  // `files` are names within the folder. Errors of the folder or a file that is not there.
  static absl::StatusOr<FolderWatch> Of(const std::string& folder, const std::vector<std::string>& files);

  // OK, or DATA_LOSS (reason DATA_DIRECTORY_GONE) that names what was deleted or replaced.
  absl::Status Check() const;

 private:
  struct Watched {
    std::string path;
    uint64_t device = 0;
    uint64_t inode = 0;
  };
  std::vector<Watched> watched_;  // the folder first
};

}  // namespace ampd::server
