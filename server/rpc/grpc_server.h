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
#include "server/rpc/acceptor.h"
#include "server/rpc/audit.h"
#include "server/rpc/call.h"
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
    std::string proxy_socket;             // Path of the socket for a proxy; empty: none.
    const Grants* grants = nullptr;       // Roles of the users that connect to it.
    const Limits* limits = nullptr;       // Of tenants and callers.
    int max_connections = 1024;           // Of each of the two.
    TokenStore* tokens = nullptr;
    IdentityProvider* provider = nullptr;  // As Guard::Options.
    AuditLog* audit = nullptr;             // Null: none.
    bool trusts_loopback = false;          // As Guard::Options.
    // With a certificate and a key, `listen` has TLS. The certificates of clients, there and behind the proxy, must be
    // issued by an authority in `ca`.
    TlsFiles tls;
    Coordinator* coordinator = nullptr;
    MetricStore* store = nullptr;
    ArtifactStore* artifacts = nullptr;
    MetricsHub* hub = nullptr;
    const ProgressBoard* progress = nullptr;
    WorkerStreams* streams = nullptr;
    const Clock* clock = nullptr;
    CallObserver* observer = nullptr;
    std::function<bool()> has_memory;             // As Guard::Options::has_memory.
    int64_t memory_limit_bytes = 0;               // Of the whole process; 0: none.
    std::function<void(const std::string&)> log;  // As Acceptor::Options::log.
  };

  // UNAVAILABLE when `listen` or `socket` cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options);
  ~GrpcServer();

  int port() const;  // 0 without Options::listen.
  Acceptor::Counters connections() const;
  // Returns the listeners. What is returned must not be used during and after Drain.
  std::vector<WatchedListener> Listeners();
  // What decides which calls get an entry in the audit log. The pages over HTTP use it too.
  Audit* audit();
  // What limits how often callers call. The pages over HTTP count too.
  CallLimits* call_limits();
  // Returns Acceptor::HadRoom for all listeners.
  bool HadConnectionRoom();
  // Ends the streams whose callers have lost their right to them, because a token expired or was revoked. Called once a
  // second. Does not wait until they have ended; returns how many they are.
  int EndDeniedStreams();
  // Publishes the results of kHealthChecks; `results` is indexed by HealthCheckId. Each check is a gRPC health service
  // with the check's name. The server as a whole and its services are healthy if all checks pass.
  void ShowHealth(const std::array<bool, std::size(kHealthChecks)>& results);
  // Sets health to NOT_SERVING, ends streams with UNAVAILABLE and gives calls in flight `grace` to finish. After it
  // returns, no call of this gRPC server uses the coordinator or the store any more. Idempotent.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit GrpcServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ampd::server
