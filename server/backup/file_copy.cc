#include "server/backup/file_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace ampd::server {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
// While a file is copied, the copy is synced each time it has grown by this many bytes. A sync of the running server
// then never has to wait for much data of the copy.
constexpr int64_t kUnsyncedBytes = int64_t{8} << 20;

// Reads up to `max_bytes` bytes of the file and passes them to `take`, piece by piece.
template <typename Take>
absl::StatusOr<FileDigest> ReadPieces(int file, int64_t max_bytes, Take take) {
  Sha256 sha;
  FileDigest digest;
  std::string buffer(kPieceBytes, '\0');
  while (digest.size_bytes < max_bytes) {
    const auto wanted = static_cast<size_t>(std::min<int64_t>(kPieceBytes, max_bytes - digest.size_bytes));
    const ssize_t count = pread(file, buffer.data(), wanted, digest.size_bytes);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return ErrnoError(errno, "cannot be read");
    }
    if (count == 0) {
      break;
    }
    const std::string_view piece(buffer.data(), static_cast<size_t>(count));
    sha.Update(piece);
    AMPD_RETURN_IF_ERROR(take(piece));
    digest.size_bytes += count;
  }
  digest.sha256 = sha.HexDigest();
  return digest;
}

absl::StatusOr<UniqueFd> OpenToRead(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.ok()) {
    return ErrnoError(errno, "cannot be opened");
  }
  return file;
}

}  // namespace

absl::StatusOr<FileDigest> DigestOf(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(const UniqueFd file, OpenToRead(path));
  return ReadPieces(file.get(), std::numeric_limits<int64_t>::max(), [](std::string_view) { return absl::OkStatus(); });
}

absl::StatusOr<FileDigest> CopyFile(int from, const std::string& to, mode_t mode, int64_t max_bytes) {
  const UniqueFd copy(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!copy.ok() || fchmod(copy.get(), mode) != 0) {  // The umask may have removed permissions.
    return ErrnoError(errno, "cannot be created");
  }
  int64_t num_unsynced = 0;
  const auto write = [&](std::string_view piece) -> absl::Status {
    AMPD_RETURN_IF_ERROR(WriteAll(copy.get(), piece));
    num_unsynced += static_cast<int64_t>(piece.size());
    if (num_unsynced < kUnsyncedBytes) {
      return absl::OkStatus();
    }
    num_unsynced = 0;
    return fdatasync(copy.get()) == 0 ? absl::OkStatus() : ErrnoError(errno, "cannot be written to the disk");
  };
  AMPD_ASSIGN_OR_RETURN(FileDigest digest, ReadPieces(from, max_bytes, write));
  if (fsync(copy.get()) != 0) {
    return ErrnoError(errno, "cannot be written to the disk");
  }
  return digest;
}

absl::StatusOr<FileDigest> CopyFile(const std::string& from, const std::string& to, mode_t mode) {
  AMPD_ASSIGN_OR_RETURN(const UniqueFd file, OpenToRead(from));
  return CopyFile(file.get(), to, mode);
}

absl::Status LinkOrCopyFile(const std::string& from, const std::string& to) {
  if (link(from.c_str(), to.c_str()) == 0) {
    return absl::OkStatus();
  }
  return errno == ENOENT ? ErrnoError(ENOENT, "cannot be linked") : CopyFile(from, to).status();
}

}  // namespace ampd::server
