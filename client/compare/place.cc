#include "client/compare/place.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace ampd::client {
namespace {

// The healthy devices of one kind on one worker.
struct Devices {
  int count = 0;
  int64_t memory_bytes = 0;  // Memory of the smallest device.
};

Devices DevicesOf(const v1::Worker& worker, v1::ResourceSpec::Kind wanted) {
  const v1::Device::Kind kind = wanted == v1::ResourceSpec::GPU ? v1::Device::GPU : v1::Device::CPU;
  Devices devices;
  for (const v1::Device& device : worker.devices()) {
    if (device.kind() == kind && !device.unhealthy()) {
      devices.memory_bytes = devices.count == 0 ? device.memory_total_bytes()
                                                : std::min(devices.memory_bytes, device.memory_total_bytes());
      ++devices.count;
    }
  }
  return devices;
}

bool IsInService(const v1::Worker& worker) {
  return (worker.state() == v1::Worker::READY || worker.state() == v1::Worker::BUSY) && !worker.drained();
}

}  // namespace

std::optional<Place> ChoosePlace(const std::vector<v1::Worker>& workers, const v1::ResourceSpec& wanted) {
  for (const v1::ResourceSpec::Kind kind : {v1::ResourceSpec::GPU, v1::ResourceSpec::CPU}) {
    if (wanted.kind() != v1::ResourceSpec::AUTO && wanted.kind() != kind) {
      continue;
    }
    const v1::Worker* best = nullptr;
    const auto rank = [kind](const v1::Worker& worker) {
      return std::tuple(worker.state() == v1::Worker::BUSY, -DevicesOf(worker, kind).memory_bytes, worker.name());
    };
    for (const v1::Worker& worker : workers) {
      const bool is_named = wanted.worker().empty() || wanted.worker() == worker.name();
      const bool can_run =
          IsInService(worker) && is_named && DevicesOf(worker, kind).count >= std::max(1, wanted.devices());
      if (can_run && (best == nullptr || rank(worker) < rank(*best))) {
        best = &worker;
      }
    }
    if (best != nullptr) {
      return Place{best->name(), kind};
    }
  }
  return std::nullopt;
}

}  // namespace ampd::client
