#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace ampd::server {

// A folder that is filled under a temporary name, "<path>.incomplete", and gets its final name when it is complete. It
// is for its owner only (mode 0700). The destructor removes a folder that was not committed; if the process is killed
// before, the next Create for the same path removes it. Thread-compatible.
class StagingFolder {
 public:
  // FAILED_PRECONDITION with reason CANNOT_WRITE if `path` exists and is not an empty folder, or if the folder cannot
  // be created; with reason ALREADY_RUNNING if another process fills it.
  static absl::StatusOr<StagingFolder> Create(std::string path);
  ~StagingFolder();
  StagingFolder(StagingFolder&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, "")), lock_(std::move(other.lock_)) {}
  StagingFolder& operator=(StagingFolder&&) = delete;

  // The path of a name in the temporary folder.
  std::string Path(const std::string& name) const { return temporary_ + "/" + name; }
  const std::string& temporary() const { return temporary_; }

  // Creates a folder in the temporary one.
  absl::Status MakeFolder(const std::string& name);
  // Makes the folder durable, and gives it its final name. REQUIRES: called once; all files in it are synced.
  absl::Status Commit();

 private:
  StagingFolder(std::string path, std::string temporary, UniqueFd lock)
      : path_(std::move(path)), temporary_(std::move(temporary)), lock_(std::move(lock)) {}

  std::string path_;
  std::string temporary_;  // Empty: committed or moved.
  UniqueFd lock_;          // The folder itself, locked (flock).
};

}  // namespace ampd::server
