#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd {

// Renames a file, also where the file system can't keep a name that is there by itself (NFS, FUSE): ALREADY_EXISTS when
// something has the name `to`. Both names are of one file system; the message names neither.
absl::Status RenameToFreeName(const std::string& from, const std::string& to);

// A file that grows under a name of its own beside the one that it is to have, and takes that when it is whole. What is
// not committed is removed. Messages do not name the path. Thread-compatible.
class PendingFile {
 public:
  // ALREADY_EXISTS when `path` is there and is not to be replaced; FAILED_PRECONDITION when it is no regular file.
  static absl::StatusOr<PendingFile> Create(const std::string& path, bool replace);
  ~PendingFile();
  PendingFile(PendingFile&&) noexcept = default;
  PendingFile& operator=(PendingFile&&) = delete;

  // Buffered.
  absl::Status Append(std::string_view bytes);
  // Over what was appended before. REQUIRES: it lies within that.
  absl::Status Overwrite(int64_t offset, std::string_view bytes);
  // Of all that was appended.
  int64_t size() const { return size_; }

  // Makes the file durable and gives it its name, once. ALREADY_EXISTS when another file took it meanwhile.
  absl::Status Commit();

 private:
  PendingFile(std::string path, std::string temporary, bool replace, UniqueFd file);
  absl::Status Flush();

  std::string path_;
  std::string temporary_;
  bool replace_ = false;
  UniqueFd file_;  // closed: nothing is left to remove
  std::string buffer_;
  int64_t size_ = 0;
};

}  // namespace ampd
