#pragma once

#include <cstdint>
#include <string>

#include "ampd/v1/worker_service.pb.h"
#include "server/coordinator/worker_session.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// Builds the directive for a worker: what it should run and delete, and which facts of its last report are on disk. The
// number of the directive's id is `number`; the lease is left empty. Notes in `session` the number of the first
// directive that contained each attempt and each deletion. If a later report reflects that directive but lacks the
// attempt, the worker has lost it; if a deletion was in that directive, the worker has done it.
v1::WorkerDirective BuildDirective(const ClusterState& state, const std::string& worker, uint64_t number,
                                   WorkerSession* session);

}  // namespace ampd::server
