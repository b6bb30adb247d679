#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"

namespace ampd::client {

// Where the jobs of a comparison run, so that all of them run on the same kind of device.
struct Place {
  std::string worker;
  v1::ResourceSpec::Kind kind = v1::ResourceSpec::AUTO;  // CPU or GPU.
};

// Chooses the worker and the kind of device for jobs that want `wanted`. A GPU comes before a CPU, a worker with a free
// device before a busy one, then more memory and the earlier name come first. Unset if no worker in service has such
// devices.
std::optional<Place> ChoosePlace(const std::vector<v1::Worker>& workers, const v1::ResourceSpec& wanted);

}  // namespace ampd::client
