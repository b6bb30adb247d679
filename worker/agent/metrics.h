#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/io/listen_address.h"
#include "worker/agent/agent_counters.h"

namespace ampd::agent {

// The agent's HTTP endpoint: /metrics for Prometheus, /healthz (200 while the agent runs) and /readyz (503 while the
// agent holds no lease of the server). Thread-safe.
class MetricsEndpoint {
 public:
  // Listens at `address`; port 0 picks a free port. UNAVAILABLE if it can't listen there. `counters` and `clock`
  // outlive the endpoint.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const ListenAddress& address,
                                                                 const std::string& version,
                                                                 const AgentCounters* counters, const Clock* clock);
  ~MetricsEndpoint();

  int port() const;

 private:
  struct State;
  explicit MetricsEndpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
