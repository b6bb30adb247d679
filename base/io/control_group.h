#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ampd {

// The limits that the control groups (cgroups) of this process set. A container has such limits, and so may a service
// of systemd. The smallest limit counts, of the group of this process and of all groups around it.
struct ControlGroupLimits {
  std::optional<int64_t> memory_bytes;
  // What the processes of the groups may still take before they reach a memory limit. Files that the kernel keeps in
  // memory and can drop at once do not count as taken.
  std::optional<int64_t> memory_free_bytes;
  // The CPUs whose time the processes may use together, rounded up; at least 1.
  std::optional<int64_t> num_cpus;
};

// Reads the limits now. Reads version 2 of control groups, and version 1 for a limit that version 2 does not have. A
// limit that cannot be read counts as none. `root` comes before /proc and /sys; tests set it.
ControlGroupLimits ReadControlGroupLimits(const std::string& root = "");

}  // namespace ampd
