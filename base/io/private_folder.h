#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Folders that only their owner may use: they hold the state of a program, which trusts what it reads there. A file in
// them that other users could write might hold anything.
namespace ampd {

// Creates the folder, and the folders above it that are missing, each with mode 0700 less the umask. An existing folder
// keeps its mode.
absl::Status MakePrivateFolders(const std::string& path);

struct PrivateFolder {
  std::string path;
  std::string what;  // What the folder is, for messages: "the data directory".
  // What to examine: 0 the folder itself, 1 its entries too, 2 also the entries of the folders in it.
  int depth = 2;
  // Whether other users who may enter the folder now may still do so afterwards, to reach a socket in it.
  bool others_may_enter = false;
  // Folders in this one whose files other users may be allowed to read, such as certificates.
  std::set<std::string> readable;
};

// Creates the folder with mode 0700 if it does not exist. Otherwise examines it and:
//
//   * refuses it, with FAILED_PRECONDITION and the reason OPEN_TO_OTHERS, if the group or others may write to it or to
//     a file or folder in it, or if one of these belongs to another user than this process's or root. The message has
//     the path, its mode or owner, and the command that corrects it;
//   * takes all permissions from group and others wherever others had one, such as mode 0755 or 0644. A mode that only
//     lets the group read, such as 0750, is taken as intended and stays.
//
// A symbolic link counts as what it leads to, and must itself belong to this user or root. Sockets are not examined.
// On a network disk that gives all files another owner, that owner counts as this user.
//
// Returns lines for the log: what was closed, and a warning if every user may replace the folder because one of the
// folders above it is open to all. Other errors are those of the system.
absl::StatusOr<std::vector<std::string>> PreparePrivateFolder(const PrivateFolder& folder);

// Refuses a file or folder that another user could write, as PreparePrivateFolder does. OK if it does not exist. `what`
// is its name in messages.
absl::Status CheckOnlyOwnerWrites(const std::string& path, const std::string& what);

}  // namespace ampd
