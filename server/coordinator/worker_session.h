#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::server {

// The facts about one worker that are not in the journal. They are lost when the server's process ends.
struct WorkerSession {
  v1::AgentIdentity agent;
  std::string incarnation;
  std::deque<std::string> retired_incarnations;
  v1::WorkerReport report;  // The last accepted report.
  absl::Time report_time;
  absl::Duration report_since_boot;
  bool losing = false;  // While the worker's loss is being committed, no report renews its lease.
  // Maps each attempt ("job/attempt") to the number of the first directive of this server process that contained it.
  // The next member does the same for deletions; its key is the path.
  std::map<std::string, uint64_t> first_sent;
  std::map<std::string, uint64_t> first_sent_deletion;
  std::string rival;  // A sentence about another agent that claims the name; empty: none.
  absl::Duration rival_since_boot;
  std::string oddity;  // The last inconsistency found in the worker's reports.
};

}  // namespace ampd::server
