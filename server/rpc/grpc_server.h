#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/health_checks.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"
#include "server/access/grants.h"
#include "server/access/limits.h"
#include "server/artifacts/artifact_store.h"
#include "server/audit/audit_log.h"
#include "server/coordinator/coordinator.h"
#include "server/monitoring/listener_watch.h"
#include "server/oidc/identity_provider.h"
#include "server/rpc/calls/audit.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/connections/acceptor.h"
#include "server/rpc/worker_streams.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"
#include "server/telemetry/progress.h"
#include "server/tokens/token_store.h"

namespace ampd::server {

// The listening gRPC server: all services, health and reflection, with limits that keep one peer from using up all
// resources. Thread-safe.
class GrpcServer {
 public:
  struct Options {
    std::optional<ListenAddress> listen;  // Port 0 lets the system choose.
    std::string socket;                   // Path of the Unix socket; empty: none.
    std::string proxy_socket;             // Path of the Unix socket for a proxy; empty: none.
    const Grants* grants = nullptr;       // Roles of the users that connect to `socket`.
    const Limits* limits = nullptr;       // Limits of tenants and callers.
    int max_connections = 1024;           // Limit for each of `listen` and `socket`.
    TokenStore* tokens = nullptr;
    IdentityProvider* provider = nullptr;  // See Guard::Options::provider.
    AuditLog* audit = nullptr;             // Null: no audit log.
    bool trusts_loopback = false;          // See Guard::Options::trusts_loopback.
    // If certificate and key are set, `listen` uses TLS. Certificates of clients, on `listen` and behind the proxy,
    // must be issued by an authority in `ca`.
    TlsFiles tls;
    Coordinator* coordinator = nullptr;
    MetricStore* store = nullptr;
    ArtifactStore* artifacts = nullptr;
    MetricsHub* hub = nullptr;
    const ProgressBoard* progress = nullptr;
    WorkerStreams* streams = nullptr;
    const Clock* clock = nullptr;
    CallObserver* observer = nullptr;
    std::function<bool()> has_memory;             // See Guard::Options::has_memory.
    int64_t memory_limit_bytes = 0;               // Limit of the whole process; 0: none.
    std::function<void(const std::string&)> log;  // See Acceptor::Options::log.
  };

  // UNAVAILABLE if `listen` or `socket` cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options);
  ~GrpcServer();

  int port() const;  // 0 if Options::listen is not set.
  Acceptor::Counters connections() const;
  // Returns the listeners. The caller must not use the result during or after Drain.
  std::vector<WatchedListener> Listeners();
  // Returns the object that decides which calls get an entry in the audit log. The pages over HTTP use it too.
  Audit* audit();
  // Returns the object that limits how often callers call. Requests over HTTP count too.
  CallLimits* call_limits();
  // Whether all listeners have capacity for another connection, and no connection was closed since the last call
  // because capacity was missing (Acceptor::HadRoom).
  bool HadConnectionRoom();
  // Ends the streams whose callers have lost their right to them: because a token expired or was revoked, or because
  // the grants have changed (OpenStreams::EndDenied). Returns the number of these streams, without waiting for their
  // end. Call it once a second.
  int EndDeniedStreams();
  // Publishes the results of kHealthChecks; `results` is indexed by HealthCheckId. Each check is a gRPC health service
  // with the check's name. The server as a whole and its services are healthy if all checks pass.
  void ShowHealth(const std::array<bool, std::size(kHealthChecks)>& results);
  // Sets health to NOT_SERVING, ends streams with UNAVAILABLE and gives calls in flight `grace` to finish. After Drain
  // has returned, no call of this gRPC server uses the coordinator or the store. Idempotent.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit GrpcServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ampd::server
