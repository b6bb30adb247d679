#include "server/data_directory.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/io/private_folder.h"

namespace ampd::server {
namespace {

absl::Status Gone(const std::string& path, const char* what) {
  return Error(absl::StatusCode::kDataLoss, "DATA_DIRECTORY_GONE",
               absl::StrCat(path, " was ", what,
                            " while the server ran, so that nothing more is kept; start the server again, on a copy of "
                            "the data if there is one"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PrepareDataDirectory(const std::string& path, bool has_open_socket) {
  absl::StatusOr<std::vector<std::string>> lines = PreparePrivateFolder({.path = path,
                                                                         .what = "the data directory",
                                                                         .depth = 2,
                                                                         .others_may_enter = has_open_socket,
                                                                         .readable = {"tls"}});
  return lines.ok() || ReasonOf(lines.status()) == "OPEN_TO_OTHERS"
             ? lines
             : Error(
                   absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_UNUSABLE",
                   absl::StrCat("cannot make the data directory ", path, ": ", std::string(lines.status().message())));
}

bool IsIn(const std::string& folder, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat of_parent = {};
  struct stat of_folder = {};
  return stat(parent.c_str(), &of_parent) == 0 && stat(folder.c_str(), &of_folder) == 0 &&
         of_parent.st_dev == of_folder.st_dev && of_parent.st_ino == of_folder.st_ino;
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
      // Only these two errors show that the file is gone; others, such as EIO or EACCES, do not.
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
