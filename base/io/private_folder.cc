#include "base/io/private_folder.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kModeBits = 07777;
constexpr mode_t kOthers = 0007;
constexpr mode_t kGroupAndOthers = 0077;
constexpr mode_t kForeignWrites = 0022;
constexpr mode_t kForeignEnters = 0011;

std::string ModeText(mode_t mode) { return absl::StrFormat("mode %04o", mode & kModeBits); }

// Returns the path as one word for a shell, quoted if it has special characters.
std::string ShellWord(const std::string& path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,=%";
  return !path.empty() && path.front() != '-' && path.find_first_not_of(kPlain) == std::string::npos
             ? path
             : absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
}

std::string UserName(uid_t uid) {
  std::string buffer(size_t{1} << 14, '\0');
  passwd entry = {};
  passwd* found = nullptr;
  return getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr
             ? std::string(entry.pw_name)
             : std::to_string(uid);
}

absl::Status SystemError(int error, std::string_view what, const std::string& path) {
  return ErrnoError(error, absl::StrCat(std::string(what), " ", path));
}

// Returns the owner of a new file in the folder; nothing if no file can be created. On a network disk this need not be
// the user of this process: the disk may give all files that root creates to another user.
std::optional<uid_t> OwnerOfNewFiles(const std::string& folder) {
  std::string path = folder + "/.probe-XXXXXX";
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  struct stat status = {};
  if (!file.ok()) {
    return std::nullopt;
  }
  unlink(path.c_str());
  return fstat(file.get(), &status) == 0 ? std::optional(status.st_uid) : std::nullopt;
}

// Examines a folder and its content. Examine only records what it finds; Close changes permissions later. So nothing is
// changed in a folder that is refused.
class Examination {
 public:
  explicit Examination(const PrivateFolder& folder) : folder_(folder) {}

  // Examines `path`, and the entries below it down to `depth`. `closes`: whether Close must remove the permissions of
  // other users on them.
  absl::Status Examine(const std::string& path, int depth, bool closes);
  // Returns an error if something that was examined belongs to another user or can be written by one; otherwise OK.
  absl::Status CheckOwners() const;
  // Removes the permissions of group and others. Returns lines for the log.
  std::vector<std::string> Close() const;

 private:
  struct Found {
    std::string path;
    mode_t mode = 0;
    uid_t owner = 0;
  };
  bool IsTrusted(uid_t uid, const std::string& path);
  void Check(const std::string& path, const struct stat& status);
  absl::Status ExamineEntries(const std::string& path, int depth, bool closes);
  mode_t ClosedMode(const Found& one) const;

  const PrivateFolder& folder_;
  std::optional<uid_t> disk_owner_;  // The owner of new files, found when first needed.
  bool has_probed_ = false;
  std::vector<Found> foreign_;
  std::vector<Found> writable_;
  std::vector<Found> readable_;
};

bool Examination::IsTrusted(uid_t uid, const std::string& path) {
  if (uid == geteuid() || uid == 0) {
    return true;
  }
  if (!has_probed_) {
    has_probed_ = true;
    std::error_code ignored;
    disk_owner_ =
        OwnerOfNewFiles(fs::is_directory(folder_.path, ignored) ? folder_.path : fs::path(path).parent_path().string());
  }
  return disk_owner_ == uid;
}

void Examination::Check(const std::string& path, const struct stat& status) {
  if (!IsTrusted(status.st_uid, path)) {
    foreign_.push_back({path, status.st_mode, status.st_uid});
  } else if ((status.st_mode & kForeignWrites) != 0 && !S_ISLNK(status.st_mode)) {
    writable_.push_back({path, status.st_mode, status.st_uid});
  }
}

absl::Status Examination::Examine(const std::string& path, int depth, bool closes) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? absl::OkStatus() : SystemError(errno, "cannot examine", path);
  }
  const bool is_link = S_ISLNK(status.st_mode);
  if (is_link) {
    Check(path, status);
    if (stat(path.c_str(), &status) != 0) {
      return absl::OkStatus();  // A broken link. The code that opens it will report that.
    }
  }
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    return absl::OkStatus();
  }
  Check(path, status);
  const bool is_top = path == folder_.path;
  if (closes && (!is_link || is_top) && (status.st_mode & kOthers) != 0) {
    readable_.push_back({path, status.st_mode, status.st_uid});
  }
  return S_ISDIR(status.st_mode) && depth > 0 && (!is_link || is_top) ? ExamineEntries(path, depth - 1, closes)
                                                                      : absl::OkStatus();
}

absl::Status Examination::ExamineEntries(const std::string& path, int depth, bool closes) {
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const bool keeps = path == folder_.path && folder_.readable.contains(entry->path().filename().string());
    AMPD_RETURN_IF_ERROR(Examine(entry->path().string(), depth, closes && !keeps));
  }
  // A process that does not run as root cannot read a folder such as lost+found, which only root may enter. Such a
  // folder is accepted, because no other user can have written to it.
  const bool is_closed_below = error == std::errc::permission_denied && path != folder_.path;
  return !error || is_closed_below || error == std::errc::no_such_file_or_directory
             ? absl::OkStatus()
             : SystemError(error.value(), "cannot read the folder", path);
}

absl::Status Examination::CheckOwners() const {
  const std::vector<Found>& all = foreign_.empty() ? writable_ : foreign_;
  if (all.empty()) {
    return absl::OkStatus();
  }
  const Found& first = all.front();
  const std::string me = UserName(geteuid());
  const bool is_alone = all.size() == 1;
  std::error_code ignored;
  const std::string target = is_alone ? first.path : fs::canonical(folder_.path, ignored).string();
  const std::string others =
      is_alone ? ""
               : absl::StrCat(foreign_.empty() ? ", and others have write permission to " : ", and other users own ",
                              all.size() - 1, " more in it");
  const std::string which = first.path == folder_.path ? absl::StrCat(folder_.what, " ", first.path)
                                                       : absl::StrCat(first.path, " in ", folder_.what);
  const std::string flags = is_alone ? "" : "-R ";
  return Error(
      absl::StatusCode::kFailedPrecondition, "OPEN_TO_OTHERS",
      foreign_.empty()
          ? absl::StrCat(which, " has ", ModeText(first.mode), others,
                         ", so that other users can change what ampd trusts; if they did not, correct it with: chmod ",
                         flags, "go-w ", ShellWord(target))
          : absl::StrCat(which, " (", ModeText(first.mode), ") belongs to the user ", UserName(first.owner), others,
                         ", but only ", me, me == "root" ? "" : " and root",
                         " may own what ampd trusts; if its content is right, correct it with: chown ", flags, me, " ",
                         ShellWord(target)));
}

mode_t Examination::ClosedMode(const Found& one) const {
  const mode_t entering = folder_.others_may_enter && one.path == folder_.path ? one.mode & kForeignEnters : 0;
  return (one.mode & kModeBits & ~kGroupAndOthers) | entering;
}

std::vector<std::string> Examination::Close() const {
  std::vector<Found> closed;
  std::vector<std::string> lines;
  for (const Found& one : readable_) {
    const mode_t mode = ClosedMode(one);
    if (mode == (one.mode & kModeBits)) {
      continue;
    }
    if (chmod(one.path.c_str(), mode) == 0) {
      closed.push_back(one);
    } else if (errno != ENOENT && lines.empty()) {
      lines.push_back(absl::StrCat(std::string(SystemError(errno, "cannot close to other users", one.path).message()),
                                   "; it keeps ", ModeText(one.mode)));
    }
  }
  if (!closed.empty()) {
    const std::string more =
        closed.size() == 1 ? "" : absl::StrCat(", and ", closed.size() - 1, " more in ", folder_.what);
    lines.push_back(absl::StrCat("closed ", closed[0].path, " to other users: ", ModeText(closed[0].mode), " is now ",
                                 absl::StrFormat("%04o", ClosedMode(closed[0])), more));
  }
  return lines;
}

// Returns the path of a folder above `path` in which every user may create entries and remove the entries of other
// users; empty if there is none.
std::string OpenFolderAbove(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  for (fs::path above = real.parent_path(); !error && above.has_relative_path(); above = above.parent_path()) {
    struct stat status = {};
    if (stat(above.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
      return above.string();
    }
  }
  return "";
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  std::error_code ignored;
  return error == EEXIST && fs::is_directory(path, ignored) ? absl::OkStatus()
                                                            : ErrnoError(error == EEXIST ? ENOTDIR : error, "mkdir");
}

}  // namespace

absl::Status MakePrivateFolders(const std::string& path) {
  absl::Status made = MakeFolder(path);
  const std::string parent = fs::path(path).parent_path().string();
  if (!absl::IsNotFound(made) || parent.empty() || parent == path) {
    return made;
  }
  AMPD_RETURN_IF_ERROR(MakePrivateFolders(parent));
  return MakeFolder(path);
}

absl::StatusOr<std::vector<std::string>> PreparePrivateFolder(const PrivateFolder& folder) {
  PrivateFolder named = folder;
  while (named.path.size() > 1 && named.path.back() == '/') {  // If the path ends in a slash, lstat follows a link.
    named.path.pop_back();
  }
  AMPD_RETURN_IF_ERROR(MakePrivateFolders(named.path));
  Examination examination(named);
  AMPD_RETURN_IF_ERROR(examination.Examine(named.path, named.depth, /*closes=*/true));
  AMPD_RETURN_IF_ERROR(examination.CheckOwners());
  std::vector<std::string> lines = examination.Close();
  if (const std::string above = OpenFolderAbove(named.path); !above.empty()) {
    lines.push_back(absl::StrCat("every user of this host can replace ", named.what, " ", named.path,
                                 ", because all may write to ", above, "; to prevent that: chmod +t ",
                                 ShellWord(above)));
  }
  return lines;
}

absl::Status CheckOnlyOwnerWrites(const std::string& path, const std::string& what) {
  const PrivateFolder alone = {.path = path, .what = what, .depth = 0, .others_may_enter = false, .readable = {}};
  Examination examination(alone);
  AMPD_RETURN_IF_ERROR(examination.Examine(path, /*depth=*/0, /*closes=*/false));
  return examination.CheckOwners();
}

}  // namespace ampd
