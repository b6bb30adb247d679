#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/server_config.h"

namespace ampd::server {

// The whole server in one object: ledger and metric store on disk, coordinator, hub, gRPC and /metrics. It only
// connects these parts and makes no decisions. Thread-compatible.
//
//   Start:  check addresses -> lock and replay the journal -> open the metric store -> restore progress -> listen
//   Stop:   health NOT_SERVING -> end streams, resumable -> finish calls -> ledger and store write what is queued
class Server {
 public:
  // Starts a server. Reasons of its errors: ADDRESS_IN_USE, ADDRESS_NOT_BINDABLE, DATA_DIRECTORY_LOCKED,
  // DATA_DIRECTORY_UNUSABLE, NEWER_SCHEMA, and the journal's errors for a damaged file. ExitCodeOf maps them to exit
  // codes.
  // * `more`: further metrics for /metrics; may be null.
  // * `on_fatal`: called if the server cannot continue and should be stopped (reasons DATA_DIRECTORY_GONE,
  //   MEMORY_LIMIT_EXCEEDED, LISTENER_IS_DEAD). Called at most once, on a thread of the server. May be null.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config,
                                                       std::shared_ptr<prometheus::Collectable> more = nullptr,
                                                       std::function<void(const absl::Status&)> on_fatal = nullptr);
  ~Server();

  int port() const;  // 0 if ServerConfig::listen is not set.
  int metrics_port() const;
  // Whether SetRights may apply these grants. It may not if they give the first role to local users, or take away the
  // last one: the modes of the socket and of the data directory depend on whether any local user has a role.
  // Thread-safe.
  bool MayTakeGrants(const Grants& grants) const;
  // Replaces the limits of callers and, if MayTakeGrants, the roles. They apply from the next call of each connection
  // on. If a caller may no longer use an open stream, or loses a tenant in which it could open the stream, the
  // stream ends within seconds. Thread-safe.
  void SetRights(const Grants& grants, const Limits& limits);
  // Stops the server. After Stop has returned, everything acknowledged is on disk. Idempotent.
  void Stop();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ampd::server
