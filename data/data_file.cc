#include "data/data_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/io/host_trouble.h"
#include "base/status_macros.h"

namespace ampd::data {
namespace {

// Returns a text for an errno value. Paths with a symbolic link and paths that leave the data root get a text of their
// own, because the system's texts (such as "Invalid cross-device link") would not help a user.
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

// Opens `name` in `folder`. After a failure the result is not ok(), and errno has the error.
UniqueFd OpenBeneath(const UniqueFd& folder, const std::string& name, uint64_t flags) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, folder.get(), name.c_str(), &how, sizeof(how))));
}

// Returns the command that gives `right` ('r' or 'x') to all users, such as "chmod o+r sets/x.npy". If `rights` name a
// group, the result also has the commands that give the right to this group only.
std::string Advice(const ReadRights& rights, const struct stat& status, const std::string& path, char right) {
  const std::string quoted = absl::CEscape(path);
  const std::string of_others = absl::StrCat("chmod o+", std::string(1, right), " ", quoted);
  if (!rights.group.has_value()) {
    return of_others;
  }
  const std::string of_group = absl::StrCat("chmod g+", std::string(1, right), " ", quoted);
  return status.st_gid == *rights.group
             ? absl::StrCat(of_others, ", or ", of_group, " for the group of --data-group")
             : absl::StrCat(of_others, ", or chgrp ", *rights.group, " ", quoted, " and ", of_group);
}

// Checks that `file.rights` permit the use of `opened`, the file or folder at `path`, and returns the result of fstat.
// `of_others` and `of_group` are the mode bits that give the right to use it.
absl::StatusOr<struct stat> CheckRights(const DataFile& file, const UniqueFd& opened, const std::string& path,
                                        mode_t of_others, mode_t of_group) {
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0) {
    return FileError(file.name, errno);
  }
  const ReadRights& rights = file.rights;
  const bool is_shared =
      (status.st_mode & of_others) != 0 || (rights.group == status.st_gid && (status.st_mode & of_group) != 0);
  if (!rights.shared_only || is_shared) {
    return status;
  }
  const bool is_file = of_others == S_IROTH;
  return DataError(file.name,
                   absl::StrCat(is_file ? "others may not read it"
                                        : absl::StrCat("others may not enter its folder ", absl::CEscape(path)),
                                " (mode ", absl::StrFormat("%04o", status.st_mode & 07777),
                                "), and a worker opens only what all who submit jobs may read; in its data root: ",
                                Advice(rights, status, path, is_file ? 'r' : 'x')));
}

// Makes the error for a `name` that can't be opened, with errno value `error`. If the process has no right to read the
// file, the message describes the file's rights.
absl::Status ErrorOfOpening(const UniqueFd& folder, const std::string& name, const DataFile& file, int error) {
  const UniqueFd looked_at = error == EACCES ? OpenBeneath(folder, name, O_PATH) : UniqueFd();
  if (looked_at.ok()) {
    AMPD_RETURN_IF_ERROR(CheckRights(file, looked_at, file.path, S_IROTH, S_IRGRP).status());
  }
  return FileError(file.name, error);
}

absl::StatusOr<UniqueFd> OpenIn(const UniqueFd& folder, const std::string& name, const DataFile& file) {
  // O_NONBLOCK, because otherwise opening a FIFO would wait for its writer.
  UniqueFd opened = OpenBeneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!opened.ok()) {
    return ErrorOfOpening(folder, name, file, errno);
  }
  AMPD_ASSIGN_OR_RETURN(const struct stat status, CheckRights(file, opened, file.path, S_IROTH, S_IRGRP));
  return S_ISREG(status.st_mode) ? absl::StatusOr<UniqueFd>(std::move(opened))
                                 : DataError(file.name, "not a regular file");
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
  UniqueFd folder(open(file.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) {
    return FileError(file.name + ": the data root can't be opened", errno);
  }
  if (absl::StartsWith(file.path, "/")) {
    return FileError(file.name, EXDEV);
  }
  const std::vector<std::string> parts = absl::StrSplit(file.path, '/', absl::SkipEmpty());
  if (parts.empty()) {
    return FileError(file.name, ENOENT);
  }
  std::string path = parts.front();
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    UniqueFd next = OpenBeneath(folder, parts[i], O_PATH | O_DIRECTORY);
    if (!next.ok()) {
      return FileError(file.name, errno);
    }
    AMPD_RETURN_IF_ERROR(CheckRights(file, next, path, S_IXOTH, S_IXGRP).status());
    folder = std::move(next);
    absl::StrAppend(&path, "/", parts[i + 1]);
  }
  return OpenIn(folder, parts.back(), file);
}

}  // namespace ampd::data
