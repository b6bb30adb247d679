#include "base/io/pending_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;

absl::Status CheckDestination(const std::string& path, bool replace) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoError(errno, "cannot be examined");
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError("it is there and is no regular file");
  }
  return replace ? absl::OkStatus() : absl::AlreadyExistsError("it is there already");
}

}  // namespace

absl::Status RenameToFreeName(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL) {
    return ErrnoError(errno, "cannot be renamed");
  }
  if (link(from.c_str(), to.c_str()) != 0) {
    return ErrnoError(errno, "cannot be renamed");
  }
  (void)unlink(from.c_str());  // Errors are ignored: the file already has its final name.
  return absl::OkStatus();
}

PendingFile::PendingFile(std::string path, std::string temporary, bool replace, UniqueFd file)
    : path_(std::move(path)), temporary_(std::move(temporary)), replace_(replace), file_(std::move(file)) {}

absl::StatusOr<PendingFile> PendingFile::Create(const std::string& path, bool replace, mode_t mode) {
  AMPD_RETURN_IF_ERROR(CheckDestination(path, replace));
  std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  UniqueFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.ok()) {
    return ErrnoError(errno, "cannot be created");
  }
  return PendingFile(path, std::move(temporary), replace, std::move(file));
}

PendingFile::~PendingFile() {
  if (file_.ok()) {
    unlink(temporary_.c_str());
  }
}

absl::Status PendingFile::Append(std::string_view bytes) {
  buffer_.append(bytes);
  size_ += static_cast<int64_t>(bytes.size());
  return buffer_.size() < kCopyBytes ? absl::OkStatus() : Flush();
}

absl::Status PendingFile::Flush() {
  AMPD_RETURN_IF_ERROR(WriteAll(file_.get(), buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status PendingFile::Overwrite(int64_t offset, std::string_view bytes) {
  AMPD_RETURN_IF_ERROR(Flush());
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "cannot be written");
    }
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    offset += std::max<ssize_t>(count, 0);
  }
  return absl::OkStatus();
}

absl::Status PendingFile::Commit() {
  AMPD_RETURN_IF_ERROR(Flush());
  if (fsync(file_.get()) != 0) {
    return ErrnoError(errno, "cannot be written to the disk");
  }
  if (!replace_) {
    AMPD_RETURN_IF_ERROR(RenameToFreeName(temporary_, path_));
  } else if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoError(errno, "cannot be renamed");
  }
  file_.Reset();
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

}  // namespace ampd
