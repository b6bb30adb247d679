#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::server {

// The state of one worker that is not in the journal. It lasts as long as this life of the server.
struct WorkerSession {
  v1::AgentIdentity agent;
  std::string incarnation;
  std::deque<std::string> retired_incarnations;
  v1::WorkerReport report;  // The last one that was accepted.
  absl::Time report_time;
  absl::Duration report_since_boot;
  bool losing = false;  // Its loss is being written to disk; its lease is not renewed.
  // The number of the first directive of this life that contained an attempt (key: "job/attempt") or a deletion (key:
  // path).
  std::map<std::string, uint64_t> first_sent;
  std::map<std::string, uint64_t> first_sent_deletion;
  std::string rival;  // A sentence about another agent that claims the name; empty: none.
  absl::Duration rival_since_boot;
  std::string oddity;  // The last inconsistency found in the worker's reports.
};

}  // namespace ampd::server
