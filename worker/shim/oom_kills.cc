#include "worker/shim/oom_kills.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ampd::shim {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr absl::Duration kSampleInterval = absl::Milliseconds(20);
constexpr absl::Duration kCountInterval = absl::Seconds(1);
// Maximum time between the kernel's count of an OOM kill and the shim's notice of the exit. A process with much memory
// takes long to exit.
constexpr absl::Duration kDeathTime = absl::Seconds(30);

// The value in the line "<key> <value>" of `text`; empty if there is no such line.
std::optional<int64_t> ValueOf(absl::string_view key, absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t value = 0;
    if (words.size() == 2 && words[0] == key && absl::SimpleAtoi(words[1], &value)) {
      return value;
    }
  }
  return std::nullopt;
}

// Whether the comma-separated `list` contains `word`.
bool Lists(absl::string_view list, absl::string_view word) {
  const std::vector<absl::string_view> words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The control group (cgroup) of a process, in the hierarchy that has the memory controller.
struct Place {
  bool is_version_1 = false;
  std::string group;  // its path in the hierarchy, "/" for the root
};

// Finds the memory control group in the text of /proc/PID/cgroup: the line "4:memory:/a/b" for version 1 or, if there
// is none, "0::/a/b" for version 2.
std::optional<Place> PlaceOf(absl::string_view groups) {
  std::optional<Place> place;
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() == 3 && Lists(fields[1], "memory")) {
      return Place{true, std::string(fields[2])};
    }
    if (fields.size() == 3 && fields[0] == "0" && fields[1].empty()) {
      place = Place{false, std::string(fields[2])};
    }
  }
  return place;
}

// One mount of a cgroup hierarchy, from a line of /proc/self/mountinfo: id, parent, device, root, mount point, ...,
// "-", type, source, file system options.
struct Mount {
  std::string root;
  std::string point;
};

std::optional<Mount> MountOf(const Place& place, absl::string_view mounts) {
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 4) {
      continue;
    }
    const bool is_it = place.is_version_1 ? dash[1] == "cgroup" && Lists(dash[3], "memory") : dash[1] == "cgroup2";
    if (is_it) {
      return Mount{std::string(fields[3]), std::string(fields[4])};
    }
  }
  return std::nullopt;
}

// The path of the control group's folder under the mount point; nullopt if this mount does not show the group.
std::optional<std::string> FolderOf(const Place& place, const Mount& mount) {
  absl::string_view below = place.group;
  if (mount.root != "/" && (!absl::ConsumePrefix(&below, mount.root) || !(below.empty() || below[0] == '/'))) {
    return std::nullopt;
  }
  if (absl::StartsWith(below, "/..")) {
    return std::nullopt;
  }
  return absl::StrCat(mount.point, absl::StripSuffix(below, "/"));
}

// Opens the file that counts the control group's OOM kills. In version 2 the group may lack the memory controller. In
// that case opens the file of the nearest ancestor that has the controller.
UniqueFd OpenCounter(const Place& place, const Mount& mount, std::string folder) {
  const auto open_in = [](const std::string& in, const char* file) {
    return UniqueFd(open(absl::StrCat(in, "/", file).c_str(), O_RDONLY | O_CLOEXEC));
  };
  if (place.is_version_1) {
    return open_in(folder, "memory.oom_control");
  }
  // Kernels before 5.2 lack memory.events.local and have only memory.events, which also counts child groups. Here both
  // counts are equal, because a group that contains processes has no child groups with the memory controller.
  UniqueFd counter = open_in(folder, "memory.events.local");
  counter = counter.ok() ? std::move(counter) : open_in(folder, "memory.events");
  while (!counter.ok() && folder.size() > mount.point.size()) {
    folder.resize(folder.rfind('/'));
    counter = open_in(folder, "memory.events.local");
  }
  return counter;
}

std::string ReadAll(const std::string& path) { return ReadFile(path, kMaxFileBytes).value_or(""); }

// Whether a process has begun to exit, from its /proc/PID/stat: the ninth field, the flags, contains PF_EXITING. Parses
// from the last parenthesis, because the command in the second field may contain spaces and parentheses.
bool IsEnding(absl::string_view stat) {
  constexpr size_t kFlags = 6;  // position among the fields after the command
  constexpr uint32_t kExiting = 0x4;
  const size_t end = stat.rfind(") ");
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(end == absl::string_view::npos ? stat.size() : end + 2), ' ');
  uint32_t flags = 0;
  return fields.size() > kFlags && absl::SimpleAtoi(fields[kFlags], &flags) && (flags & kExiting) != 0;
}

}  // namespace

void OomKills::Open(const std::string& groups) {
  groups_ = groups;
  counts_.clear();
  counter_.Reset();
  const std::optional<Place> place = PlaceOf(groups);
  const std::optional<Mount> mount = place ? MountOf(*place, ReadAll(proc_ + "/self/mountinfo")) : std::nullopt;
  const std::optional<std::string> folder = mount ? FolderOf(*place, *mount) : std::nullopt;
  if (folder) {
    counter_ = OpenCounter(*place, *mount, *folder);
  }
}

OomKills::Count OomKills::Read(absl::Duration now) const {
  Count count;
  count.time = now;
  char text[4096];
  const ssize_t size = counter_.ok() ? pread(counter_.get(), text, sizeof(text), 0) : -1;
  if (size > 0) {
    count.of_the_group = ValueOf("oom_kill", absl::string_view(text, static_cast<size_t>(size)));
  }
  count.of_the_machine = ValueOf("oom_kill", ReadAll(proc_ + "/vmstat")).value_or(0);
  return count;
}

void OomKills::Sample(pid_t process, absl::Duration now) {
  if (now < sampled_at_ + kSampleInterval) {
    return;
  }
  sampled_at_ = now;
  // While a process exits, the kernel shows its version 1 control group as "/". A process with much memory takes some
  // time to exit, so ignore the group that the kernel shows during the exit, and keep the group that was read earlier.
  const std::string process_folder = absl::StrCat(proc_, "/", process);
  const std::string groups = ReadAll(process_folder + "/cgroup");
  if (!groups.empty() && groups != groups_ && !IsEnding(ReadAll(process_folder + "/stat"))) {
    Open(groups);
  }
  if (counts_.empty() || now >= counts_.back().time + kCountInterval) {
    counts_.push_back(Read(now));
  }
  // VerdictAt compares with the oldest count, which must be from before a possible OOM kill. So drop the oldest count
  // only if the second oldest is at least kDeathTime old.
  while (counts_.size() > 1 && counts_[1].time <= now - kDeathTime) {
    counts_.pop_front();
  }
}

OomKills::Verdict OomKills::VerdictAt(absl::Duration now) const {
  if (counts_.empty()) {
    return Verdict::kNone;
  }
  const Count& before = counts_.front();
  const Count after = Read(now);
  if (before.of_the_group.has_value() && after.of_the_group.has_value()) {
    return *after.of_the_group > *before.of_the_group ? Verdict::kOfTheGroup : Verdict::kNone;
  }
  return after.of_the_machine > before.of_the_machine ? Verdict::kOfTheMachine : Verdict::kNone;
}

}  // namespace ampd::shim
