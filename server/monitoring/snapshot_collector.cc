#include "server/monitoring/snapshot_collector.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/io/file.h"

namespace ampd::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.resize(1);
  family.metric[0].gauge.value = value;
  family.metric[0].counter.value = value;
  return family;
}

// The fields of /proc/self/stat from the third on; the second may contain spaces and brackets.
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

std::vector<MetricFamily> SnapshotCollector::Collect() const {
  const absl::Duration start = SystemClock().SinceBoot();
  std::shared_ptr<const FleetSnapshot> snapshot;
  {
    absl::MutexLock lock(&mutex_);
    snapshot = snapshot_;
  }
  std::vector<MetricFamily> families = RenderFleet(*snapshot);
  metrics_->SetJobsExported(static_cast<int64_t>(snapshot->jobs.size()));
  metrics_->SetJobsSuppressed(snapshot->num_suppressed);
  metrics_->SetCollectTime(SystemClock().SinceBoot() - start);
  return families;
}

std::vector<MetricFamily> ProcessCollector::Collect() const {
  const std::vector<std::string> stat = StatFields();
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  return {
      Single("process_start_time_seconds", "Start of the process, in seconds since the epoch.", MetricType::Gauge,
             BootUnixSeconds() + Field(stat, 22) / ticks),
      Single("process_cpu_seconds_total", "User and system time.", MetricType::Counter,
             (Field(stat, 14) + Field(stat, 15)) / ticks),
      Single("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge,
             Field(stat, 24) * static_cast<double>(sysconf(_SC_PAGESIZE))),
      Single("process_open_fds", "Open file descriptors.", MetricType::Gauge, NumOpenFiles()),
      Single("process_max_fds", "Most file descriptors that may be open.", MetricType::Gauge,
             static_cast<double>(files.rlim_cur)),
  };
}

}  // namespace ampd::server
