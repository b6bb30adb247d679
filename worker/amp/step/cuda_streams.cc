#include "worker/amp/step/cuda_streams.h"

#include <map>
#include <mutex>
#include <utility>

namespace ampd::amp {

c10::cuda::CUDAStream StreamFor(StreamUse use, c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<std::pair<StreamUse, c10::DeviceIndex>, c10::cuda::CUDAStream> streams;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = streams.find({use, device});
  return found != streams.end()
             ? found->second
             : streams.emplace(std::pair(use, device), c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device))
                   .first->second;
}

}  // namespace ampd::amp
