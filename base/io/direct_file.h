#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd {

// A new file, written front to back in large pieces that bypass the page cache (O_DIRECT). So the disk starts to write
// at the first piece, little is left for Sync, and the content does not displace other pages from memory. Small files,
// and file systems without O_DIRECT, use the page cache. Thread-compatible.
//
//   Create -> Append* -> Sync
class DirectFile {
 public:
  // Creates the file. `size_bytes` is the total that will be appended. The disk space is reserved at once if the file
  // system supports that, so that a full disk is found before anything is written. ALREADY_EXISTS if `path` exists;
  // other errors are those of ErrnoError.
  static absl::StatusOr<DirectFile> Create(const std::string& path, int64_t size_bytes);
  DirectFile(DirectFile&&) noexcept = default;
  DirectFile& operator=(DirectFile&&) noexcept = default;

  // Appends to the buffer, and writes the buffer whenever it is full. REQUIRES: no earlier call failed.
  absl::Status Append(std::string_view bytes);
  // Writes the rest of the buffer and makes the file durable. REQUIRES: called once, after the last Append.
  absl::Status Sync();

 private:
  struct Unmap {
    void operator()(char* buffer) const;
  };

  DirectFile(UniqueFd fd, bool direct, std::unique_ptr<char, Unmap> buffer);
  absl::Status WriteBuffer();
  absl::Status LeaveDirect();

  UniqueFd fd_;
  bool direct_ = false;
  std::unique_ptr<char, Unmap> buffer_;  // Page-aligned.
  size_t filled_ = 0;                    // Bytes in the buffer.
};

}  // namespace ampd
