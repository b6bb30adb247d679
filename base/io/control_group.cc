#include "base/io/control_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/io/file.h"

namespace ampd {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 16;

std::string ReadSmallFile(const std::string& path) { return ReadFile(path, kMaxFileBytes).value_or(""); }

// Returns the number that is the whole content of a file; nothing if the content is something else, such as "max".
std::optional<int64_t> NumberIn(const std::string& path) {
  int64_t number = 0;
  return absl::SimpleAtoi(ReadSmallFile(path), &number) ? std::optional(number) : std::nullopt;
}

// Returns the number behind `name` in a file with lines such as "inactive_file 4096"; 0 if there is none.
int64_t FieldIn(const std::string& path, absl::string_view name) {
  const std::string text = ReadSmallFile(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t number = 0;
    if (parts.first == name && absl::SimpleAtoi(parts.second, &number)) {
      return number;
    }
  }
  return 0;
}

void LowerTo(int64_t limit, std::optional<int64_t>* limits) { *limits = std::min(limit, limits->value_or(limit)); }

// The names of the files about memory in one version of control groups.
struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* droppable;  // a field of memory.stat
};
constexpr MemoryFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr MemoryFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

void AddMemory(const std::string& folder, const MemoryFiles& files, ControlGroupLimits* limits) {
  const std::optional<int64_t> limit = NumberIn(absl::StrCat(folder, "/", files.limit));
  if (!limit.has_value() || *limit <= 0) {
    return;
  }
  LowerTo(*limit, &limits->memory_bytes);
  if (const std::optional<int64_t> usage = NumberIn(absl::StrCat(folder, "/", files.usage)); usage.has_value()) {
    const int64_t taken = *usage - FieldIn(folder + "/memory.stat", files.droppable);
    LowerTo(std::max<int64_t>(0, *limit - std::max<int64_t>(0, taken)), &limits->memory_free_bytes);
  }
}

// Adds a limit of `quota` microseconds of CPU time in each `period` microseconds.
void AddCpus(std::optional<int64_t> quota, std::optional<int64_t> period, ControlGroupLimits* limits) {
  if (quota.has_value() && period.has_value() && *quota > 0 && *period > 0) {
    LowerTo((*quota - 1) / *period + 1, &limits->num_cpus);
  }
}

void AddVersion2(const std::string& folder, ControlGroupLimits* limits) {
  AddMemory(folder, kVersion2, limits);
  const std::string text = ReadSmallFile(folder + "/cpu.max");  // "max 100000" or "150000 100000"
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t quota = 0;
  int64_t period = 0;
  if (words.size() == 2 && absl::SimpleAtoi(words[0], &quota) && absl::SimpleAtoi(words[1], &period)) {
    AddCpus(quota, period, limits);
  }
}

void AddVersion1Cpus(const std::string& folder, ControlGroupLimits* limits) {
  AddCpus(NumberIn(folder + "/cpu.cfs_quota_us"), NumberIn(folder + "/cpu.cfs_period_us"), limits);
}

// Calls visit(folder) for the group and each of its parent groups, up to the hierarchy's mount point. In a container,
// the path may be the group's path on the host, which does not exist in the container; the mount point then is the
// group's folder.
template <typename Visit>
void ForEachGroup(const std::string& mount_point, std::string group, Visit visit) {
  while (!group.empty() && group != "/") {
    visit(mount_point + group);
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
  visit(mount_point);
}

}  // namespace

ControlGroupLimits ReadControlGroupLimits(const std::string& root) {
  ControlGroupLimits limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  const std::string groups = ReadSmallFile(root + "/proc/self/cgroup");
  // Each line has a hierarchy's number, its controllers and the group: "0::/a" for version 2, "4:memory:/a" for 1.
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',', absl::SkipEmpty());
    const auto has = [&controllers](absl::string_view name) {
      return std::find(controllers.begin(), controllers.end(), name) != controllers.end();
    };
    if (fields[0] == "0" && controllers.empty()) {
      ForEachGroup(mounts, fields[2], [&](const std::string& folder) { AddVersion2(folder, &limits); });
    }
    if (has("memory")) {
      ForEachGroup(mounts + "/memory", fields[2],
                   [&](const std::string& folder) { AddMemory(folder, kVersion1, &limits); });
    }
    if (has("cpu")) {
      ForEachGroup(mounts + "/cpu", fields[2], [&](const std::string& folder) { AddVersion1Cpus(folder, &limits); });
    }
  }
  return limits;
}

}  // namespace ampd
