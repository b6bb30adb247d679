#pragma once

#include "ampd/v1/worker.pb.h"
#include "worker/device/devices.h"

namespace ampd {

// Describes the CPU that runs the benchmark as a worker describes it to the server. Its instruction sets decide which
// formats a policy resolves to.
inline v1::Device ThisCpu() {
  device::Devices::Options options;
  options.only = {"cpu"};
  return device::Devices::Discover(options).value().Current().at(0);
}

}  // namespace ampd
