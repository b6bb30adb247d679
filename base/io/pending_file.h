#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd {

// Renames a file without replacing another one. Returns ALREADY_EXISTS if something has the name `to`. Also works on
// file systems that can't check this in the rename itself (NFS, FUSE). Both names must be on one file system. Error
// messages contain neither name.
absl::Status RenameToFreeName(const std::string& from, const std::string& to);

// A file that is written under a temporary name beside its final one, and renamed when it is complete. The destructor
// removes a file that was not committed. Error messages do not name the path. Thread-compatible.
class PendingFile {
 public:
  // Creates the temporary file for `path`, with `mode` less the umask. ALREADY_EXISTS if `path` exists and `replace` is
  // false; FAILED_PRECONDITION if `path` exists and is not a regular file.
  static absl::StatusOr<PendingFile> Create(const std::string& path, bool replace, mode_t mode = kUserFile);
  ~PendingFile();
  PendingFile(PendingFile&&) noexcept = default;
  PendingFile& operator=(PendingFile&&) = delete;

  // Appends to a buffer, which is written to the file when it is full.
  absl::Status Append(std::string_view bytes);
  // Writes over bytes that were appended before. REQUIRES: the range lies within the appended bytes.
  absl::Status Overwrite(int64_t offset, std::string_view bytes);
  // Bytes appended so far.
  int64_t size() const { return size_; }

  // Makes the file durable and renames it to its final name. REQUIRES: called once. ALREADY_EXISTS if `replace` was
  // false and another file took the name meanwhile.
  absl::Status Commit();

 private:
  PendingFile(std::string path, std::string temporary, bool replace, UniqueFd file);
  absl::Status Flush();

  std::string path_;
  std::string temporary_;
  bool replace_ = false;
  UniqueFd file_;  // Closed by Commit; the destructor then removes nothing.
  std::string buffer_;
  int64_t size_ = 0;
};

}  // namespace ampd
