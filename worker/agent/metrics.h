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

// The agent's HTTP endpoint: /metrics for Prometheus, /healthz (200 while the agent runs) and /readyz (200 while the
// agent has a valid lease, otherwise 503). Thread-safe.
class MetricsEndpoint {
 public:
  // The objects whose numbers the pages show. They outlive the endpoint.
  struct Sources {
    std::string version;
    const AgentCounters* counters;
    const TrainingTimes* times;
    const Clock* clock;
    device::GpuMonitor* gpus = nullptr;  // read at each scrape; null: no metrics of GPUs
    std::string worker;                  // The worker's name.
    HostSources host;
  };
  // Listens at `address`; port 0 picks a free port. If `tls` has files, the endpoint uses TLS and accepts only clients
  // with a certificate of `tls.ca`. Otherwise it answers everybody who can connect. UNAVAILABLE if it can't listen at
  // `address`.
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
