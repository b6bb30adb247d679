#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace ampd::server {

// Whether a call of this method ("ampd.v1.JobService/CreateJob") may use much memory, or some memory for a long time.
// Such calls create, clone or estimate a job, or open a stream of a client. Calls of workers do not count, because
// running jobs would lose their lease if their workers' calls were refused.
bool TakesMuchMemory(std::string_view method);

// Returns OK if a call of this method may begin. `has_memory` says whether the server's memory is within its limit. If
// it is not, and the method may take much memory, returns RESOURCE_EXHAUSTED (reason SERVER_MEMORY) with a retry delay.
absl::Status CheckMemoryFor(std::string_view method, bool has_memory);

}  // namespace ampd::server
