#include "worker/agent/files/checkpoint_remover.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/io/file.h"
#include "base/io/open_below.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kRetryInterval = absl::Minutes(1);
constexpr int64_t kMaxFileBytes = 64 << 20;
// Maximum depth of a tree that is removed. A checkpoint has the four levels "<job>/<attempt>/step-<n>/<file>"; this
// allows twice as many.
constexpr int kMaxDepth = 8;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

absl::Status ListNames(UniqueFd folder, std::vector<std::string>* names) {
  const std::unique_ptr<DIR, CloseFolder> entries(fdopendir(folder.get()));
  if (entries == nullptr) {
    return ErrnoError(errno, "read a folder");
  }
  folder.Release();  // `entries` closes the descriptor
  for (errno = 0; const dirent* entry = readdir(entries.get()); errno = 0) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names->push_back(name);
    }
  }
  return errno == 0 ? absl::OkStatus() : ErrnoError(errno, "read a folder");
}

// Removes `name` from `folder`: a file, or a folder with everything in it. Continues after an error; returns the first
// error.
absl::Status RemoveEntry(int folder, const std::string& name, int depth) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  if (errno != EISDIR) {
    return ErrnoError(errno, "unlink");
  }
  UniqueFd inner(openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  UniqueFd listed(inner.ok() ? fcntl(inner.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!listed.ok()) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoError(errno, "open a folder");
  }
  if (depth == kMaxDepth) {
    return absl::InternalError("folders are nested deeper than those of checkpoints");
  }
  std::vector<std::string> names;
  absl::Status status = ListNames(std::move(listed), &names);
  for (const std::string& inner_name : names) {
    status.Update(RemoveEntry(inner.get(), inner_name, depth + 1));
  }
  if (status.ok() && unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    status = ErrnoError(errno, "remove a folder");
  }
  return status;
}

absl::Status Refused(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat("refused to delete a checkpoint that is not below the root: ", path));
}

}  // namespace

absl::Status RemoveBelow(const std::string& root, const std::string& path) {
  if (!StaysBelow(path)) {
    return Refused(path);
  }
  const UniqueFd base(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.ok()) {
    return ErrnoError(errno, "open the checkpoint root");
  }
  const std::filesystem::path whole = path;
  const UniqueFd parent = OpenFolderBelow(base.get(), whole.parent_path());
  if (!parent.ok()) {
    return errno == ENOENT || errno == ENOTDIR ? absl::OkStatus()
           : errno == ELOOP || errno == EXDEV  ? Refused(path)
                                               : ErrnoError(errno, "open a folder");
  }
  if (const absl::Status status = RemoveEntry(parent.get(), whole.filename(), 0); !status.ok()) {
    return status;
  }
  for (std::filesystem::path folder = whole.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    const UniqueFd above = OpenFolderBelow(base.get(), folder.parent_path());
    if (!above.ok() || unlinkat(above.get(), folder.filename().c_str(), AT_REMOVEDIR) != 0) {
      break;
    }
  }
  return absl::OkStatus();
}

CheckpointRemover::CheckpointRemover(std::string root, std::string file, std::function<void(const std::string&)> log)
    : root_(std::move(root)), file_(std::move(file)), log_(std::move(log)) {}

void CheckpointRemover::Load() {
  const absl::StatusOr<std::string> text = ReadFile(file_, kMaxFileBytes);
  if (!text.ok() && !absl::IsNotFound(text.status())) {
    log_(absl::StrCat("can't read the pending deletions of checkpoints, so these files stay: ",
                      text.status().message()));
  }
  for (const absl::string_view path : absl::StrSplit(text.value_or(""), '\n', absl::SkipEmpty())) {
    pending_[std::string(path)] = absl::ZeroDuration();
  }
}

void CheckpointRemover::Remove(const std::vector<std::string>& paths, const std::vector<std::string>& later,
                               absl::Duration now) {
  Pending pending = pending_;
  for (const std::string& path : later) {
    pending[path] = absl::ZeroDuration();
  }
  std::set<std::string> refused;
  for (const std::string& path : paths) {
    const absl::Status status = RemoveBelow(root_, path);
    const bool is_known = status.ok() || refused_.contains(path) || pending_.contains(path);
    if (absl::IsInvalidArgument(status)) {
      refused.insert(path);
    }
    if (status.ok() || absl::IsInvalidArgument(status)) {
      pending.erase(path);
    } else {
      pending[path] = now + kRetryInterval;
    }
    if (!is_known) {
      log_(absl::IsInvalidArgument(status)
               ? std::string(status.message())
               : absl::StrCat("can't delete checkpoint ", path, " and will retry: ", status.message()));
    }
  }
  refused_ = std::move(refused);
  Store(std::move(pending));
}

void CheckpointRemover::Store(Pending pending) {
  const bool is_same = std::equal(pending.begin(), pending.end(), pending_.begin(), pending_.end(),
                                  [](const auto& a, const auto& b) { return a.first == b.first; });
  pending_ = std::move(pending);
  if (is_same && is_stored_) {
    return;
  }
  const std::string text =
      absl::StrJoin(pending_, "", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first, "\n"); });
  const absl::Status stored = WriteFileAtomically(file_, text);
  if (!stored.ok() && is_stored_) {
    log_(absl::StrCat("can't store the pending deletions of checkpoints: ", stored.message()));
  }
  is_stored_ = stored.ok();
}

std::vector<std::string> DueAt(const CheckpointRemover::Pending& pending, absl::Duration now) {
  std::vector<std::string> due;
  for (const auto& [path, at] : pending) {
    if (at <= now) {
      due.push_back(path);
    }
  }
  return due;
}

}  // namespace ampd::agent
