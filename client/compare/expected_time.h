#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"

namespace ampd::client {

// The time that the steps of a job will take, estimated from a finished job.
struct ExpectedTime {
  double seconds = 0;
  std::string job_id;  // The finished job's id.
  std::string device;  // The finished job's device: "w1/cpu".
};

// Returns the time that `spec` will take in `precision` on a device of the kind "CPU" or "GPU". The pace, in steps per
// second, is that of the first job in `finished` that has the same model, data, batch size, precision and kind of
// device. `finished` is ordered, the newest job first. If `spec` has only a number of epochs, this job must also show
// how many steps an epoch has. Unset if there is no such job. `spec` has its defaults filled in.
std::optional<ExpectedTime> ExpectedTimeOf(const v1::JobSpec& spec, const std::string& precision,
                                           const std::string& device_kind, const std::vector<v1::Job>& finished);

}  // namespace ampd::client
