#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"

namespace ampd::client {

// How long the steps of a job will take, judged by a finished job.
struct ExpectedTime {
  double seconds = 0;
  std::string job_id;  // The finished job.
  std::string device;  // Where it ran: "w1/cpu".
};

// Returns the time that `spec` will take in `precision` on a device of the kind "CPU" or "GPU", at the pace of the
// first of the jobs that trained the same model on the same data in the same batches, in that precision and on that
// kind of device. Unset if there is none, or if the number of steps cannot be derived from it. `spec` has its defaults
// filled in. `finished`: jobs, the newest first.
std::optional<ExpectedTime> ExpectedTimeOf(const v1::JobSpec& spec, const std::string& precision,
                                           const std::string& device_kind, const std::vector<v1::Job>& finished);

}  // namespace ampd::client
