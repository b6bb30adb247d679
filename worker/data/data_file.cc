#include "worker/data/data_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/host_trouble.h"

namespace ampd::data {
namespace {

// What the kernel says of a path that leaves the root is about its own workings.
const char* Why(int error) {
  switch (error) {
    case ELOOP:
      return "it is a symbolic link, or one is on the way; none is followed";
    case EXDEV:
      return "it leads out of its data root";
    default:
      return strerror(error);
  }
}

}  // namespace

absl::Status HostError(const std::string& name, const std::string& what) {
  return Error(absl::StatusCode::kUnavailable, "DEVICE_ERROR",
               absl::StrCat(name, ": the worker's host can't read it now: ", what));
}

absl::Status FileError(const std::string& name, int error) {
  return IsTroubleOfTheHost(error) ? HostError(name, strerror(error)) : DataError(name, Why(error));
}

absl::Status ArchiveError(const std::string& name, const absl::Status& error) {
  const std::string what(error.message());
  return absl::IsUnavailable(error) ? HostError(name, what) : DataError(name, what);
}

absl::Status DataError(const std::string& name, const std::string& what) {
  return Error(absl::StatusCode::kFailedPrecondition, "DATA_ERROR", absl::StrCat(name, ": ", what));
}

absl::StatusOr<UniqueFd> OpenDataFile(const DataFile& file) {
  const UniqueFd folder(open(file.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) {
    return FileError(file.name + ": the data root can't be opened", errno);
  }
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd opened(static_cast<int>(syscall(SYS_openat2, folder.get(), file.path.c_str(), &how, sizeof(how))));
  if (!opened.ok()) {
    return FileError(file.name, errno);
  }
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0) {
    return FileError(file.name, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return DataError(file.name, "not a regular file");
  }
  return opened;
}

}  // namespace ampd::data
