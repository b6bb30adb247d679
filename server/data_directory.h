#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ampd::server {

// Creates the data directory so that only its owner can access it. If the folder already exists, removes the access of
// other users to the folder and its files (base/io/private_folder.h). If `has_open_socket`, a socket in the folder is
// for other users, so users who may enter the folder keep that right. Returns lines for the log, which say what was
// changed. FAILED_PRECONDITION with reason DATA_DIRECTORY_UNUSABLE if the folder cannot be created, or with
// OPEN_TO_OTHERS if other users could change it.
absl::StatusOr<std::vector<std::string>> PrepareDataDirectory(const std::string& path, bool has_open_socket);

// Whether the file `path` is directly in the folder. False if the folder does not exist.
bool IsIn(const std::string& folder, const std::string& path);

// Detects whether a folder or files in it were deleted or replaced, by comparing inode numbers. Thread-compatible.
class FolderWatch {
 public:
  // Remembers the inode numbers of the folder and of `files`, which are names in it. Fails if the folder or a file does
  // not exist.
  static absl::StatusOr<FolderWatch> Of(const std::string& folder, const std::vector<std::string>& files);

  // Returns OK, or DATA_LOSS (reason DATA_DIRECTORY_GONE) naming what was deleted or replaced.
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
