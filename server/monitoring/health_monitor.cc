#include "server/monitoring/health_monitor.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

// The server is not ready if fewer descriptors than this are free, because a store may then fail to open its next file.
constexpr int64_t kFewDescriptors = 16;

}  // namespace

int64_t DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

int64_t DescriptorsLeft() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) {
    return 0;
  }
  int64_t num_entries = 0;
  while (readdir(folder) != nullptr) {
    ++num_entries;
  }
  closedir(folder);
  const int64_t num_open = num_entries - 3;  // Excludes ".", ".." and the folder's own descriptor.
  return std::max<int64_t>(0, DescriptorLimit() - num_open);
}

void HealthMonitor::Look() {
  Results now = {};
  now[kDiskCheck] = options_.has_disk_room();
  now[kDataDirectoryCheck] = options_.check_folder().ok();
  now[kDescriptorsCheck] = options_.has_connection_room() && DescriptorsLeft() >= kFewDescriptors;
  now[kMemoryCheck] = options_.has_memory();
  now[kListenersCheck] = options_.listeners_accept();
  Results before;
  bool is_shown = false;
  {
    absl::MutexLock lock(&mutex_);
    before = std::exchange(results_, now);
    is_shown = now != before && !is_leaving_;
  }
  if (is_shown) {
    options_.show(now);
  }
  for (size_t i = 0; i < now.size(); ++i) {
    if (before[i] != now[i]) {
      const HealthCheck& check = kHealthChecks[i];
      options_.log(now[i], absl::StrCat(check.name, ": ", now[i] ? check.good : check.bad));
    }
  }
}

void HealthMonitor::BeginLeaving() {
  absl::MutexLock lock(&mutex_);
  is_leaving_ = true;
}

std::string HealthMonitor::WhatFails() const {
  absl::MutexLock lock(&mutex_);
  std::string lines = is_leaving_ ? "the server is shutting down\n" : "";
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i]) {
      absl::StrAppend(&lines, kHealthChecks[i].name, ": ", kHealthChecks[i].bad, "\n");
    }
  }
  return lines;
}

}  // namespace ampd::server
