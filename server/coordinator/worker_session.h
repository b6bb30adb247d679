#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::server {

// What is known of a worker in this life of the server and not journaled.
struct WorkerSession {
  v1::AgentIdentity agent;
  std::string incarnation;
  std::deque<std::string> retired_incarnations;
  v1::WorkerReport report;  // the last one taken in
  absl::Time report_time;
  absl::Duration report_since_boot;
  bool losing = false;  // its loss is on its way to disk: no lease is renewed
  // First directive of this life that held the attempt ("job/attempt") or the deletion (path).
  std::map<std::string, uint64_t> first_told;
  std::map<std::string, uint64_t> first_told_deletion;
  std::string rival;  // who else claims the name, in a sentence; empty: nobody has
  absl::Duration rival_since_boot;
  std::string oddity;  // what was last found wrong in its reports
};

}  // namespace ampd::server
