#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace ampd::server {

// A folder that is filled under a temporary name, "<path>.incomplete", and gets its final name when it is complete.
// Only its owner can access it (mode 0700). The destructor removes a folder that was not committed. If the process is
// killed, the temporary folder stays; the next Create for the same path empties and reuses it. Thread-compatible.
class StagingFolder {
 public:
  // Creates the temporary folder. FAILED_PRECONDITION with reason CANNOT_WRITE if `path` exists and is not an empty
  // folder, or if the temporary folder cannot be created; with reason ALREADY_RUNNING if another process is filling it.
  static absl::StatusOr<StagingFolder> Create(std::string path);
  ~StagingFolder();
  StagingFolder(StagingFolder&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, "")), lock_(std::move(other.lock_)) {}
  StagingFolder& operator=(StagingFolder&&) = delete;

  // Returns the path of the file `name` in the temporary folder.
  std::string Path(const std::string& name) const { return temporary_ + "/" + name; }
  const std::string& temporary() const { return temporary_; }

  // Creates a subfolder of the temporary folder.
  absl::Status MakeFolder(const std::string& name);
  // Makes the folder durable, and gives it its final name. REQUIRES: called once; all files in it are synced.
  absl::Status Commit();

 private:
  StagingFolder(std::string path, std::string temporary, UniqueFd lock)
      : path_(std::move(path)), temporary_(std::move(temporary)), lock_(std::move(lock)) {}

  std::string path_;
  std::string temporary_;  // Empty: the folder was committed, or this object was moved from.
  UniqueFd lock_;          // Descriptor of the folder, locked with flock.
};

}  // namespace ampd::server
