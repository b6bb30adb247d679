#pragma once

#include <cstdint>
#include <string>

#include "ampd/v1/worker_service.pb.h"
#include "server/coordinator/worker_session.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// Builds the directive for a worker: what the worker should run and delete, and which facts of its last report are on
// disk. The directive's id gets `number`; its lease is left empty.
//
// Records in `session` the number of the first directive that contained each attempt and each deletion. A later report
// that reflects that directive shows two things. If the report lacks the attempt, the attempt is lost. If the directive
// ordered a deletion, the deletion is done.
v1::WorkerDirective BuildDirective(const ClusterState& state, const std::string& worker, uint64_t number,
                                   WorkerSession* session);

}  // namespace ampd::server
