#pragma once

namespace ampd {

// The health that a server reports. Each check is a service of grpc.health.v1 with this name; the service "" is SERVING
// if all of them are.
struct HealthCheck {
  const char* name;
  const char* good;  // Follows the name in messages while the check passes; `bad` while it fails.
  const char* bad;
};

enum HealthCheckId { kDiskCheck, kDataDirectoryCheck, kDescriptorsCheck };

inline constexpr HealthCheck kHealthChecks[] = {
    {"disk", "has room for new jobs", "is nearly full, and new jobs are refused; make room on the disk of --data-dir"},
    {"data-directory", "is in place", "was deleted or replaced; the server ends"},
    {"descriptors", "there is room for connections and files",
     "run out, and new connections are closed; end clients, or raise the limit of open files (ulimit -n)"}};

}  // namespace ampd
