#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace ampd::server {

// Whether a call of this method ("ampd.v1.JobService/CreateJob") may take much memory, or takes some for a long time:
// new jobs, estimates, and the streams of clients. The calls of workers are not among them, because jobs that run would
// lose their lease.
bool TakesMuchMemory(std::string_view method);

// OK, or the error that refuses a call of this method while the server's memory is above its limit: RESOURCE_EXHAUSTED
// (reason SERVER_MEMORY) with a retry delay.
absl::Status CheckMemoryFor(std::string_view method, bool has_memory);

}  // namespace ampd::server
