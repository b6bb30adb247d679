#pragma once

#include <atomic>
#include <cstdint>

namespace ampd::agent {

// Counters for the agent's metrics. Thread-safe.
struct AgentCounters {
  std::atomic<int64_t> num_reports = 0;
  std::atomic<int64_t> num_directives = 0;
  std::atomic<int64_t> num_attach_streams = 0;
  std::atomic<int64_t> num_trainers_started = 0;
  std::atomic<int64_t> num_trainers_adopted = 0;
  std::atomic<int64_t> num_attempts = 0;  // attempts held at this moment
  std::atomic<int64_t> num_out_of_memory = 0;
  std::atomic<int64_t> lease_deadline_nanos = 0;
};

}  // namespace ampd::agent
