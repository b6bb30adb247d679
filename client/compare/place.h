#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"

namespace ampd::client {

// The worker and the kind of device on which all jobs of a comparison run.
struct Place {
  std::string worker;
  v1::ResourceSpec::Kind kind = v1::ResourceSpec::AUTO;  // CPU or GPU.
};

// Chooses the worker and the kind of device for jobs that request `wanted`. Prefers, in this order: GPUs to CPUs, a
// worker with a free device, more memory, and the name that is first in alphabetical order. Unset if no available
// worker has such devices.
std::optional<Place> ChoosePlace(const std::vector<v1::Worker>& workers, const v1::ResourceSpec& wanted);

}  // namespace ampd::client
