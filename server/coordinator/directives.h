#pragma once

#include <cstdint>
#include <string>

#include "ampd/v1/worker_service.pb.h"
#include "server/coordinator/worker_session.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// What the worker should run and delete, and which of its report's facts are on disk. The id's number is `number`; the
// lease is left empty. Records in the session in which directive each attempt and deletion was sent first, so that a
// later report which reflects that directive can show that the worker has lost or finished them.
v1::WorkerDirective BuildDirective(const ClusterState& state, const std::string& worker, uint64_t number,
                                   WorkerSession* session);

}  // namespace ampd::server
