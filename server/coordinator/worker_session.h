#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::server {

// State of a worker in this life of the server that is not journaled.
struct WorkerSession {
  v1::AgentIdentity agent;
  std::string incarnation;
  std::deque<std::string> retired_incarnations;
  v1::WorkerReport report;  // The last one that was accepted.
  absl::Time report_time;
  absl::Duration report_since_boot;
  bool losing = false;  // Its loss is being written to disk; its lease is not renewed.
  // Number of the first directive of this life that contained the attempt ("job/attempt") or the deletion (path).
  std::map<std::string, uint64_t> first_sent;
  std::map<std::string, uint64_t> first_sent_deletion;
  std::string rival;  // Another agent that claims the name, described in a sentence; empty: none.
  absl::Duration rival_since_boot;
  std::string oddity;  // The last inconsistency found in its reports.
};

}  // namespace ampd::server
