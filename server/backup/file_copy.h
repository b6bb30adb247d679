#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::server {

// What a file has.
struct FileDigest {
  int64_t size_bytes = 0;
  std::string sha256;
};

// NOT_FOUND if there is no such file. Other errors are those of the system.
absl::StatusOr<FileDigest> DigestOf(const std::string& path);

// Copies the first `max_bytes` bytes of an open file, from its start, to the new file `to`, and syncs it.
absl::StatusOr<FileDigest> CopyFile(int from, const std::string& to, mode_t mode = kPrivateFile,
                                    int64_t max_bytes = std::numeric_limits<int64_t>::max());
// Copies the file `from`, which must not be a symbolic link. NOT_FOUND if it does not exist.
absl::StatusOr<FileDigest> CopyFile(const std::string& from, const std::string& to, mode_t mode = kPrivateFile);

// Gives a file that never changes a second name or, where that is not possible, copies it. NOT_FOUND if it does not
// exist.
absl::Status LinkOrCopyFile(const std::string& from, const std::string& to);

}  // namespace ampd::server
