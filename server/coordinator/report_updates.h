#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/coordinator/updates.h"
#include "server/coordinator/worker_session.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// The updates that result from a worker's report.
struct IngestedReport {
  Updates updates;     // In the order in which they must be committed.
  std::string oddity;  // One sentence about reported facts that can't be true and were skipped; empty: none.
};

// Compares the session's report with the state: the worker's registration; the progress, checkpoints and outcomes of
// its attempts; attempts that it was assigned but does not report; and files that it has deleted. Pure.
IngestedReport IngestReport(const WorkerSession& session, const ClusterState& state, absl::Time now);

}  // namespace ampd::server
