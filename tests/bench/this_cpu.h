#pragma once

#include "ampd/v1/worker.pb.h"
#include "worker/device/devices.h"

namespace ampd {

// Describes the CPU that runs the benchmark in the same way as a worker describes its CPU to the server. The CPU's
// instruction sets determine the formats to which a policy resolves.
inline v1::Device ThisCpu() {
  device::Devices::Options options;
  options.only = {"cpu"};
  return device::Devices::Discover(options).value().Current().at(0);
}

}  // namespace ampd
