#include "server/data_directory.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"

namespace ampd::server {
namespace {

absl::Status Gone(const std::string& path, const char* what) {
  return Error(absl::StatusCode::kDataLoss, "DATA_DIRECTORY_GONE",
               absl::StrCat(path, " was ", what,
                            " while the server ran, so that nothing more is kept; start the server again, on a copy of "
                            "the data if there is one"));
}

}  // namespace

absl::Status MakeDataDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return Error(
      absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_UNUSABLE",
      absl::StrCat("cannot make the data directory ", path, ": ", std::string(ErrnoError(errno, "mkdir").message())));
}

absl::StatusOr<FolderWatch> FolderWatch::Of(const std::string& folder, const std::vector<std::string>& files) {
  std::vector<std::string> paths = {folder};
  for (const std::string& file : files) {
    paths.push_back(absl::StrCat(folder, "/", file));
  }
  FolderWatch watch;
  for (const std::string& path : paths) {
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0) {
      return ErrnoError(errno, "stat");
    }
    watch.watched_.push_back({path, status.st_dev, status.st_ino});
  }
  return watch;
}

absl::Status FolderWatch::Check() const {
  for (const Watched& one : watched_) {
    struct stat status = {};
    if (stat(one.path.c_str(), &status) != 0) {
      // Other errors, such as EIO or EACCES, do not show that the file is gone.
      if (errno == ENOENT || errno == ENOTDIR) {
        return Gone(one.path, "deleted");
      }
    } else if (status.st_dev != one.device || status.st_ino != one.inode) {
      return Gone(one.path, "replaced");
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
