#pragma once

#include "ampd/v1/worker.pb.h"
#include "worker/device/devices.h"

namespace ampd {

// The CPU that runs the benchmark, as a worker would offer it: what a policy becomes depends on its instruction sets.
inline v1::Device ThisCpu() {
  device::Devices::Options options;
  options.only = {"cpu"};
  return device::Devices::Discover(options).value().Current().at(0);
}

}  // namespace ampd
