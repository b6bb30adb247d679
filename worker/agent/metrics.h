#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"
#include "worker/agent/agent_counters.h"
#include "worker/agent/host_metrics.h"
#include "worker/agent/training_times.h"
#include "worker/device/gpu_monitor.h"

namespace ampd::agent {

// The agent's HTTP endpoint: /metrics for Prometheus, /healthz (200 while the agent runs) and /readyz (503 while the
// server has granted the agent no valid lease). Thread-safe.
class MetricsEndpoint {
 public:
  // What the pages show. Everything outlives the endpoint.
  struct Sources {
    std::string version;
    const AgentCounters* counters;
    const TrainingTimes* times;
    const Clock* clock;
    device::GpuMonitor* gpus = nullptr;  // read at each scrape; null: no metrics of GPUs
    std::string worker;                  // The worker's name.
    HostSources host;
  };
  // Listens at `address`; port 0 picks a free port. With the files `tls`, it speaks TLS, and a client must show a
  // certificate of `tls.ca`; without them, everybody who can connect sees the pages. UNAVAILABLE if it can't listen
  // there.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const ListenAddress& address, const TlsFiles& tls,
                                                                 const Sources& sources);
  ~MetricsEndpoint();

  int port() const;

 private:
  struct State;
  explicit MetricsEndpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
