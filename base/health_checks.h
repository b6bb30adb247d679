#pragma once

namespace ampd {

// One aspect of the health that a server reports. Each check is a service of grpc.health.v1, with the check's name. The
// service "" is SERVING if all checks are.
struct HealthCheck {
  const char* name;
  const char* good;  // Text after the name in messages while the check passes.
  const char* bad;
};

enum HealthCheckId { kDiskCheck, kDataDirectoryCheck, kDescriptorsCheck, kMemoryCheck, kListenersCheck };

inline constexpr HealthCheck kHealthChecks[] = {
    {"disk", "has room for new jobs", "is nearly full, and new jobs are refused; make room on the disk of --data-dir"},
    {"data-directory", "is in place", "was deleted or replaced; the server ends"},
    {"descriptors", "there is room for connections and files",
     "run out, and new connections are closed; end clients, or raise the limit of open files (ulimit -n)"},
    {"memory", "is below the limit", "is above --memory-limit, and new jobs and streams are refused; raise the limit"},
    {"listeners", "accept connections", "do not all accept connections; the log and /healthz name those that do not"}};

}  // namespace ampd
