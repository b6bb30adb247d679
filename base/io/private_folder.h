#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Folders that only their owner may use. A program keeps its state in them and trusts what it reads there. This would
// not be safe if other users could write to the files.
namespace ampd {

// Creates the folder, and the folders above it that are missing, each with mode 0700 less the umask. An existing folder
// keeps its mode.
absl::Status MakePrivateFolders(const std::string& path);

struct PrivateFolder {
  std::string path;
  std::string what;  // What the folder is, for messages: "the data directory".
  // How deep to examine: 0 only the folder itself, 1 also its entries, 2 also the entries of the folders in it.
  int depth = 2;
  // If true, other users who can already enter the folder keep this permission, so that they can reach a socket in it.
  bool others_may_enter = false;
  // Names of entries of the folder that keep their permissions, with all that is in them, because other users may read
  // them: for example a folder of certificates.
  std::set<std::string> readable;
};

// Creates the folder with mode 0700 if it does not exist. Otherwise examines it and:
//
//   * refuses it, with FAILED_PRECONDITION and the reason OPEN_TO_OTHERS, if the group or others may write to it or to
//     a file or folder in it, or if one of these belongs neither to this process's user nor to root. The message has
//     the path, its mode or owner, and the command that corrects it;
//   * removes all permissions of group and others from every file and folder on which others have a permission, such as
//     mode 0755 or 0644. A mode that gives others no permission, such as 0750, is kept, even if the group may read.
//
// The first rule also applies to the target of a symbolic link in the folder, and to the owner of the link. The target
// keeps its permissions. Sockets are not examined. Some network disks give all files the same owner; that owner counts
// as this user.
//
// Returns lines for the log: which permissions were removed, and a warning if every user may replace the folder because
// a folder above it is open to all. Other errors are those of the system.
absl::StatusOr<std::vector<std::string>> PreparePrivateFolder(const PrivateFolder& folder);

// Returns the error of PreparePrivateFolder if another user could write this file or folder. OK if it does not exist.
// `what` is its name in messages.
absl::Status CheckOnlyOwnerWrites(const std::string& path, const std::string& what);

}  // namespace ampd
