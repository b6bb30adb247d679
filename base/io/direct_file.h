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

// A new file, written front to back in large pieces past the page cache where the file system lets it (O_DIRECT): the
// disk has work from the first piece on and little is left for the sync, and what is read no time soon does not push
// out of memory what is. Where it does not, and for small files, the page cache is used. Thread-compatible.
//
//   Create -> Append* -> Sync
class DirectFile {
 public:
  // `size_bytes` is what will be appended in all: room for it is taken at once where the file system can, so that a
  // full disk is met before anything is written. ALREADY_EXISTS when `path` is there; errors of ErrnoError.
  static absl::StatusOr<DirectFile> Create(const std::string& path, int64_t size_bytes);
  DirectFile(DirectFile&&) noexcept = default;
  DirectFile& operator=(DirectFile&&) noexcept = default;

  // Buffered. REQUIRES: the file is good: nothing failed before.
  absl::Status Append(std::string_view bytes);
  // Writes what is left and makes the file durable, once, last.
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
  std::unique_ptr<char, Unmap> buffer_;  // page-aligned
  size_t filled_ = 0;                    // of the buffer
};

}  // namespace ampd
