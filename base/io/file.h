#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace ampd {

// Makes a status from `error`, an errno value met while doing `what`: NOT_FOUND for ENOENT, ALREADY_EXISTS for EEXIST,
// PERMISSION_DENIED for EACCES, EPERM and EROFS, RESOURCE_EXHAUSTED (reason DISK_FULL) for ENOSPC and EDQUOT,
// UNAVAILABLE for ECONNREFUSED, ECONNRESET and EPIPE, INTERNAL otherwise. The message names no path, because some
// messages go to clients; the caller adds a path where that is harmless.
absl::Status ErrnoError(int error, std::string_view what);

// Reads the whole file. RESOURCE_EXHAUSTED if it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// Modes of new files: kPrivateFile for files that only their owner may read, kUserFile for files that a user asked for.
// The umask may remove permissions.
inline constexpr mode_t kPrivateFile = 0600;
inline constexpr mode_t kUserFile = 0644;

// Replaces `path` by `content` so that a crash leaves either the old or the new file. Writes a temporary file with mode
// `mode` in the same folder, fsyncs it, renames it to `path`, and fsyncs the folder.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content, mode_t mode = kPrivateFile);

// Writes all of `bytes`, retrying after interruptions and short writes.
absl::Status WriteAll(int fd, std::string_view bytes);

// Makes renames and new entries in `folder` durable.
absl::Status SyncFolder(const std::string& folder);

}  // namespace ampd
