#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::server {

// The size and the digest of a file.
struct FileDigest {
  int64_t size_bytes = 0;
  std::string sha256;
};

// Returns the digest of a file. NOT_FOUND if the file does not exist. Other errors are those of the system.
absl::StatusOr<FileDigest> DigestOf(const std::string& path);

// Copies the first `max_bytes` bytes of an open file, from its start, to the new file `to`, and syncs it.
absl::StatusOr<FileDigest> CopyFile(int from, const std::string& to, mode_t mode = kPrivateFile,
                                    int64_t max_bytes = std::numeric_limits<int64_t>::max());
// Copies the file `from`, which must not be a symbolic link. NOT_FOUND if it does not exist.
absl::StatusOr<FileDigest> CopyFile(const std::string& from, const std::string& to, mode_t mode = kPrivateFile);

// Gives the file `from`, which must never change, the second name `to` (a hard link). Copies the file where a link is
// not possible. NOT_FOUND if the file does not exist.
absl::Status LinkOrCopyFile(const std::string& from, const std::string& to);

}  // namespace ampd::server
