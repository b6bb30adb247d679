#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/coordinator/updates.h"
#include "server/coordinator/worker_session.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// What a worker's report adds to the state.
struct IngestedReport {
  Updates updates;     // In the order in which they must be committed.
  std::string oddity;  // A sentence about facts that can't be true, which are skipped; empty: none.
};

// Compares the session's report with the state: the worker's registration, the progress, checkpoints and outcomes of
// its attempts, attempts that it should have and does not know, and files that it has deleted. Pure.
IngestedReport IngestReport(const WorkerSession& session, const ClusterState& state, absl::Time now);

}  // namespace ampd::server
