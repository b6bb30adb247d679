#include "base/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
      return absl::StatusCode::kResourceExhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status WriteAndSync(const std::string& path, std::string_view content, mode_t mode) {
  unlink(path.c_str());  // A crash may have left this file with another mode.
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.ok()) {
    return ErrnoError(errno, "cannot be created");
  }
  AMPD_RETURN_IF_ERROR(WriteAll(fd.get(), content));
  if (fsync(fd.get()) != 0) {
    return ErrnoError(errno, "cannot be written to the disk");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoError(int error, std::string_view what) {
  const std::string message = absl::StrCat(std::string(what), ": ", strerror(error));
  const absl::StatusCode code = CodeOf(error);
  return code == absl::StatusCode::kResourceExhausted ? Error(code, "DISK_FULL", message) : absl::Status(code, message);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) {
    return ErrnoError(errno, "cannot be opened");
  }
  std::string content;
  struct stat found = {};
  if (fstat(fd.get(), &found) == 0) {
    content.reserve(static_cast<size_t>(std::clamp<int64_t>(found.st_size, 0, max_bytes)));
  }
  std::string buffer(1 << 16, '\0');
  for (;;) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count == 0) {
      return content;
    }
    if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "cannot be read");
    }
    content.append(buffer.data(), count > 0 ? static_cast<size_t>(count) : 0);
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the file is larger than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "cannot be written");
    }
    bytes.remove_prefix(count > 0 ? static_cast<size_t>(count) : 0);
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  absl::Status status = WriteAndSync(temporary, content, mode);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoError(errno, "cannot be renamed");
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

absl::Status SyncFolder(const std::string& folder) {
  UniqueFd fd(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) {
    return ErrnoError(errno, "the folder cannot be opened");
  }
  if (fsync(fd.get()) != 0) {
    return ErrnoError(errno, "the folder cannot be written to the disk");
  }
  return absl::OkStatus();
}

}  // namespace ampd
