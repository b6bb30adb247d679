#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace ampd {

// Readings of this process, from /proc. A number that the kernel does not show is 0.
struct ProcessStats {
  double start_unix_seconds = 0;
  double cpu_seconds = 0;  // User and system time.
  double resident_bytes = 0;
  double num_open_files = 0;
  double max_open_files = 0;
};
ProcessStats ReadProcessStats();

// The space of a disk.
struct DiskSpace {
  int64_t size_bytes = 0;
  int64_t free_bytes = 0;  // Without the space that is reserved for root.
};
// Reads the space of the disk that the folder is on.
absl::StatusOr<DiskSpace> ReadDiskSpace(const std::string& folder);

// Reads the kernel's pressure stall information of a resource ("cpu", "io" or "memory"): the seconds since boot in
// which at least one task of the host had to wait for the resource. `folder` is where the kernel shows this
// information. Returns nothing if the kernel does not show it.
std::optional<double> ReadPressureSeconds(const std::string& resource, const std::string& folder = "/proc/pressure");

}  // namespace ampd
