#pragma once

#include <cstdint>
#include <vector>

#include "ampd/v1/job_service.pb.h"
#include "server/state/cluster_state.h"
#include "server/state/placement_rules.h"

namespace ampd::server {

// Explains why the job waits, with a verdict for each device. Pure.
v1::ExplainJobResponse ExplainWaiting(const ClusterState& state, const LiveWorkers& live,
                                      const internal::JobRecord& record, int64_t now_unix_micros);

// The workers in service, each with the devices that a job of this spec would consider: of the wanted kind, healthy and
// with its data, whether held or not. Their compute capability and memory are not checked. Pure.
std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const v1::JobSpec& spec);

}  // namespace ampd::server
