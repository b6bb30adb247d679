#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/agent/agent.h"

namespace ampd::agent {

// The agent's Prometheus endpoint, /metrics. Thread-safe.
class MetricsEndpoint {
 public:
  // UNAVAILABLE when it can't listen at `address` (host:port; port 0 takes a free one). `counters` and `clock` outlive
  // it.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const std::string& address, const std::string& version,
                                                                 const AgentCounters* counters, const Clock* clock);
  ~MetricsEndpoint();

  int port() const;

 private:
  struct State;
  explicit MetricsEndpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
