#include "base/io/host_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/io/file.h"

namespace ampd {
namespace {

// Returns the fields of /proc/self/stat from the third on. The second field, the command, may contain spaces and
// brackets.
std::vector<std::string> StatFields() {
  absl::StatusOr<std::string> stat = ReadFile("/proc/self/stat", 1 << 16);
  const size_t end = stat.ok() ? stat->rfind(')') : std::string::npos;
  if (end == std::string::npos) {
    return {};
  }
  return absl::StrSplit(stat->substr(end + 2), ' ');
}

double Field(const std::vector<std::string>& fields, size_t number) {
  double value = 0;
  return fields.size() > number - 3 && absl::SimpleAtod(fields[number - 3], &value) ? value : 0;
}

double BootUnixSeconds() {
  absl::StatusOr<std::string> uptime = ReadFile("/proc/uptime", 1 << 10);
  double seconds = 0;
  if (!uptime.ok() || !absl::SimpleAtod(uptime->substr(0, uptime->find(' ')), &seconds)) {
    return 0;
  }
  return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - seconds;
}

double NumOpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) {
    return 0;
  }
  int num_entries = 0;
  while (readdir(folder) != nullptr) {
    ++num_entries;
  }
  closedir(folder);
  // Three entries are not counted: ".", ".." and the descriptor with which the folder itself is read.
  return num_entries - 3;
}

}  // namespace

ProcessStats ReadProcessStats() {
  const std::vector<std::string> stat = StatFields();
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  return {.start_unix_seconds = BootUnixSeconds() + Field(stat, 22) / ticks,
          .cpu_seconds = (Field(stat, 14) + Field(stat, 15)) / ticks,
          .resident_bytes = Field(stat, 24) * static_cast<double>(sysconf(_SC_PAGESIZE)),
          .num_open_files = NumOpenFiles(),
          .max_open_files = static_cast<double>(files.rlim_cur)};
}

absl::StatusOr<DiskSpace> ReadDiskSpace(const std::string& folder) {
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) != 0) {
    return ErrnoError(errno, folder);
  }
  const auto block = static_cast<int64_t>(disk.f_frsize);
  return DiskSpace{.size_bytes = static_cast<int64_t>(disk.f_blocks) * block,
                   .free_bytes = static_cast<int64_t>(disk.f_bavail) * block};
}

std::optional<double> ReadPressureSeconds(const std::string& resource, const std::string& folder) {
  const std::string text = ReadFile(absl::StrCat(folder, "/", resource), 1 << 10).value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      double micros = 0;
      if (line.substr(0, 5) == "some " && absl::ConsumePrefix(&word, "total=") && absl::SimpleAtod(word, &micros)) {
        return micros / 1e6;
      }
    }
  }
  return std::nullopt;
}

}  // namespace ampd
