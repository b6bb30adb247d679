#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ampd::server {

// Creates the folder, accessible to its owner only, if it does not exist, and else closes it and its files to other
// users (base/io/private_folder.h). `has_open_socket` says that a socket in it is for other users, so that those who
// may enter the folder keep that right. Returns lines for the log. FAILED_PRECONDITION with the reason
// DATA_DIRECTORY_UNUSABLE if the folder cannot be created, and with OPEN_TO_OTHERS if other users could change it.
absl::StatusOr<std::vector<std::string>> PrepareDataDirectory(const std::string& path, bool has_open_socket);

// Whether the file `path` lies directly in the folder. False if the folder does not exist.
bool IsIn(const std::string& folder, const std::string& path);

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
