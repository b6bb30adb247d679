#include "base/io/direct_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace ampd {
namespace {

// The size of each write. On a virtual machine's disk, writing 1 GB in pieces of 8 MB took as long as in pieces of 32
// MB, and less time than in pieces of 1 MB.
constexpr size_t kBufferBytes = 8 << 20;

// Smaller files use the page cache: a file that fits into one buffer gains nothing from bypassing it.
constexpr int64_t kMinDirectBytes = kBufferBytes;

// O_DIRECT requires aligned addresses, offsets and sizes; this alignment suffices for every disk.
constexpr size_t kAlignment = 4096;

UniqueFd Open(const std::string& path, int more_flags) {
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | more_flags, 0600));
}

// Reserves disk space. Returns an error only if the disk is full or the file would be too large. Other errors are
// ignored, because reserving is only a hint.
absl::Status TakeRoom(int fd, int64_t size_bytes) {
  int error = 0;
  do {
    error = fallocate(fd, 0, 0, size_bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? ErrnoError(error, "fallocate") : absl::OkStatus();
}

}  // namespace

void DirectFile::Unmap::operator()(char* buffer) const { munmap(buffer, kBufferBytes); }

DirectFile::DirectFile(UniqueFd fd, bool direct, std::unique_ptr<char, Unmap> buffer)
    : fd_(std::move(fd)), direct_(direct), buffer_(std::move(buffer)) {}

absl::StatusOr<DirectFile> DirectFile::Create(const std::string& path, int64_t size_bytes) {
  bool direct = size_bytes >= kMinDirectBytes;
  UniqueFd fd = Open(path, direct ? O_DIRECT : 0);
  if (direct && !fd.ok() && errno == EINVAL) {  // The file system lacks O_DIRECT, but may have created the file.
    unlink(path.c_str());
    direct = false;
    fd = Open(path, 0);
  }
  if (!fd.ok()) {
    return ErrnoError(errno, "create");
  }
  if (size_bytes > 0) {
    AMPD_RETURN_IF_ERROR(TakeRoom(fd.get(), size_bytes));
  }
  void* const buffer = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) {
    return ErrnoError(errno, "mmap");
  }
  return DirectFile(std::move(fd), direct, std::unique_ptr<char, Unmap>(static_cast<char*>(buffer)));
}

absl::Status DirectFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kBufferBytes - filled_);
    std::memcpy(buffer_.get() + filled_, bytes.data(), count);
    filled_ += count;
    bytes.remove_prefix(count);
    if (filled_ == kBufferBytes) {
      AMPD_RETURN_IF_ERROR(WriteBuffer());
    }
  }
  return absl::OkStatus();
}

absl::Status DirectFile::WriteBuffer() {
  size_t written = 0;
  while (written < filled_) {
    const ssize_t count = write(fd_.get(), buffer_.get() + written, filled_ - written);
    if (count > 0) {
      written += static_cast<size_t>(count);
      // After a short write the remaining bytes may not be aligned, so O_DIRECT can't write them.
      if (direct_ && written % kAlignment != 0) {
        AMPD_RETURN_IF_ERROR(LeaveDirect());
      }
    } else if (count < 0 && errno == EINVAL &&
               direct_) {  // Some file systems open with O_DIRECT but can't write with it.
      AMPD_RETURN_IF_ERROR(LeaveDirect());
    } else if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "write");
    }
  }
  filled_ = 0;
  return absl::OkStatus();
}

absl::Status DirectFile::LeaveDirect() {
  direct_ = false;
  const int flags = fcntl(fd_.get(), F_GETFL);
  return flags >= 0 && fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0 ? absl::OkStatus()
                                                                         : ErrnoError(errno, "fcntl");
}

absl::Status DirectFile::Sync() {
  if (direct_ && filled_ % kAlignment != 0) {
    AMPD_RETURN_IF_ERROR(LeaveDirect());
  }
  AMPD_RETURN_IF_ERROR(WriteBuffer());
  return fsync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoError(errno, "fsync");
}

}  // namespace ampd
