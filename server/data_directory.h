#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ampd::server {

// Creates the folder, accessible to its owner only, if it does not exist. FAILED_PRECONDITION (reason
// DATA_DIRECTORY_UNUSABLE) if it cannot be created.
absl::Status MakeDataDirectory(const std::string& path);

// Detects when a folder or files in it were deleted or replaced, by comparing inode numbers. Thread-compatible.
class FolderWatch {
 public:
  // `files` are names within the folder. Fails if the folder or a file does not exist.
  static absl::StatusOr<FolderWatch> Of(const std::string& folder, const std::vector<std::string>& files);

  // OK, or DATA_LOSS (reason DATA_DIRECTORY_GONE) naming what was deleted or replaced.
  absl::Status Check() const;

 private:
  struct Watched {
    std::string path;
    uint64_t device = 0;
    uint64_t inode = 0;
  };
  std::vector<Watched> watched_;  // The folder comes first.
};

}  // namespace ampd::server
