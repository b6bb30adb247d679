#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ampd {

// The limits that the control groups (cgroups) of this process set. A container has such limits, and so may a service
// of systemd. If the group of this process and its parent groups have different limits, the smallest one counts.
struct ControlGroupLimits {
  std::optional<int64_t> memory_bytes;
  // The memory that the processes of the groups may still use before they reach a limit. Cached files that the kernel
  // can drop at once do not count as used.
  std::optional<int64_t> memory_free_bytes;
  // How many CPUs the processes may use together, rounded up; at least 1.
  std::optional<int64_t> num_cpus;
};

// Reads the limits now, from version 2 and from version 1 of control groups. If both set a limit, the smaller one
// counts. A limit that cannot be read counts as none. `root` is put before the paths /proc and /sys; tests set it.
ControlGroupLimits ReadControlGroupLimits(const std::string& root = "");

}  // namespace ampd
