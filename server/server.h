#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/server_config.h"

namespace ampd::server {

// The whole server in one object: ledger and metric store on disk, coordinator, hub, gRPC and /metrics. It wires; it
// decides nothing. Thread-compatible.
//
//   Start:  addresses checked -> journal locked and replayed -> metric store opened -> progress read back -> listening
//   Stop:   health NOT_SERVING -> streams end resumable -> calls finish -> ledger and store write what they hold
class Server {
 public:
  // Errors, by reason: ADDRESS_IN_USE, ADDRESS_NOT_BINDABLE, DATA_DIRECTORY_LOCKED, DATA_DIRECTORY_UNUSABLE,
  // NEWER_SCHEMA, and what the journal says of a damaged file. ExitCodeOf maps them.
  // `more` is shown at /metrics beside the server's own; may be null. `on_fatal` is called at most once, on a thread of
  // the server, when it can't go on and should be stopped: DATA_DIRECTORY_GONE. May be null.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config,
                                                       std::shared_ptr<prometheus::Collectable> more = nullptr,
                                                       std::function<void(const absl::Status&)> on_fatal = nullptr);
  ~Server();

  int port() const;
  int metrics_port() const;
  // Everything acknowledged is on disk afterwards. Idempotent.
  void Stop();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ampd::server
