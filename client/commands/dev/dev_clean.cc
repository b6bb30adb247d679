#include "client/commands/dev/dev_clean.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/io/file.h"
#include "client/render/format.h"
#include "client/terminal/confirm.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;

constexpr char kLock[] = "lock";
constexpr char kCheckpoints[] = "checkpoints";  // folder with one subfolder per job

int64_t BytesBelow(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(fs::symlink_status(path, error))) {
    return static_cast<int64_t>(fs::file_size(path, error));
  }
  int64_t bytes = 0;
  for (auto entry = fs::recursive_directory_iterator(path, error); entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    const bool is_file = fs::is_regular_file(entry->symlink_status(gone));
    const uintmax_t size = is_file ? fs::file_size(entry->path(), gone) : 0;
    bytes += gone ? 0 : static_cast<int64_t>(size);
  }
  return bytes;
}

// Returns the entries of the folder except its lock file, sorted by name.
std::set<fs::path> EntriesOf(const fs::path& folder) {
  std::set<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename() != kLock) {
      entries.insert(entry->path());
    }
  }
  return entries;
}

}  // namespace

std::string DescribeDevFolder(const std::string& folder) {
  std::vector<std::string> parts;
  for (const fs::path& entry : EntriesOf(folder)) {
    const std::string name = entry.filename().string();
    const size_t num_jobs = name == kCheckpoints ? EntriesOf(entry).size() : 0;
    const std::string jobs = num_jobs == 0 ? "" : absl::StrCat(" of ", num_jobs, num_jobs == 1 ? " job" : " jobs");
    parts.push_back(absl::StrCat(Printable(name), jobs, " (", FormatBytes(BytesBelow(entry)), ")"));
  }
  return absl::StrJoin(parts, ", ");
}

absl::Status ConfirmDevClean(const std::string& folder, bool confirmed) {
  const std::string content = DescribeDevFolder(folder);
  if (content.empty()) {
    return absl::OkStatus();
  }
  std::error_code error;
  const std::string shown = Printable(fs::absolute(folder, error).string());
  if (!fs::exists(fs::path(folder) / kLock, error)) {
    return Error(absl::StatusCode::kFailedPrecondition, "NOT_OURS",
                 absl::StrCat(shown, " was not created by ampctl dev, so nothing was deleted; delete it yourself"));
  }
  if (confirmed) {
    return absl::OkStatus();
  }
  if (!CanAsk()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot ask whether to delete everything in ", shown, " (", content,
                                                   "), because stdin is not a terminal; to delete it without a "
                                                   "question: ampctl dev --clean --yes"));
  }
  return Confirm(absl::StrCat("delete everything in ", shown, ": ", content, "?"))
             ? absl::OkStatus()
             : absl::CancelledError("nothing was deleted, and nothing was started");
}

absl::Status CleanDevFolder(const std::string& folder) {
  for (const fs::path& entry : EntriesOf(folder)) {
    std::error_code error;
    fs::remove_all(entry, error);
    if (error) {
      return ErrnoError(error.value(), absl::StrCat("deleting ", entry.string()));
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::client
