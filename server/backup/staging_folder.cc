#include "server/backup/staging_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& path, std::string_view why) {
  return Error(absl::StatusCode::kFailedPrecondition, "CANNOT_WRITE",
               absl::StrCat("cannot create ", path, ": ", std::string(why)));
}

absl::Status CheckIsFree(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::OkStatus();
  }
  const bool is_empty = fs::is_directory(status) && fs::is_empty(path, error);
  return is_empty && !error ? absl::OkStatus()
                            : CannotWrite(path, "it exists already, and is not an empty folder; choose another name");
}

// Removes the entries of a folder that a killed process left behind.
absl::Status RemoveEntries(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    fs::remove_all(entry->path(), error);
  }
  return error ? CannotWrite(folder, error.message()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<StagingFolder> StagingFolder::Create(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  AMPD_RETURN_IF_ERROR(CheckIsFree(path));
  std::string temporary = path + ".incomplete";
  if (mkdir(temporary.c_str(), 0700) != 0 && errno != EEXIST) {
    return CannotWrite(temporary, std::strerror(errno));
  }
  UniqueFd lock(open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.ok()) {
    return CannotWrite(temporary, std::strerror(errno));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error(absl::StatusCode::kFailedPrecondition, "ALREADY_RUNNING",
                 absl::StrCat("another process fills ", temporary, "; wait until it has ended"));
  }
  StagingFolder staging(std::move(path), std::move(temporary), std::move(lock));
  if (fchmod(staging.lock_.get(), 0700) != 0) {
    return CannotWrite(staging.temporary_, std::strerror(errno));
  }
  AMPD_RETURN_IF_ERROR(RemoveEntries(staging.temporary_));
  return staging;
}

StagingFolder::~StagingFolder() {
  if (!temporary_.empty()) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

absl::Status StagingFolder::MakeFolder(const std::string& name) {
  return mkdir(Path(name).c_str(), 0700) == 0 ? absl::OkStatus() : CannotWrite(Path(name), std::strerror(errno));
}

absl::Status StagingFolder::Commit() {
  std::error_code error;
  for (fs::directory_iterator entry(temporary_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->is_directory(error)) {
      AMPD_RETURN_IF_ERROR(SyncFolder(entry->path().string()));
    }
  }
  if (error) {
    return CannotWrite(temporary_, error.message());
  }
  AMPD_RETURN_IF_ERROR(SyncFolder(temporary_));
  // rename replaces the target only if it is an empty folder or does not exist.
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return CannotWrite(path_, errno == EBUSY ? "it is a mount point; choose a folder in it" : std::strerror(errno));
  }
  temporary_.clear();
  return SyncFolder(fs::path(path_).parent_path().string());
}

}  // namespace ampd::server
