#pragma once

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "base/api/tenants.h"
#include "server/coordinator/worker_session.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// Returns the worker as clients see it: its record, its jobs, its state, and the last report of its agent. `session` is
// null if the worker has not reported in this run of the server. Only jobs of the tenants `visible` are shown. A rival
// (another agent that claims the worker's name) is shown only if its last claim came at or after `rivals_since`, a time
// since boot. Pure.
v1::Worker ViewOf(const ClusterState& state, const internal::WorkerRecord& record, const WorkerSession* session,
                  absl::Duration rivals_since, const Tenants& visible = Tenants::All());

}  // namespace ampd::server
