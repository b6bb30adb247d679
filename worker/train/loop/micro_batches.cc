#include "worker/train/loop/micro_batches.h"

namespace ampd::train {

std::vector<amp::Batch> MicroBatchesOf(const data::Dataset::Samples& samples, int64_t num_parts) {
  const int64_t size = samples.labels.size(0) / num_parts;
  std::vector<amp::Batch> parts;
  for (int64_t i = 0; i < num_parts; ++i) {
    const auto part = [i, size](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(0, i * size, size) : at::Tensor();
    };
    amp::Batch& batch = parts.emplace_back(amp::Batch{part(samples.images), part(samples.labels)});
    for (const auto& [name, tensor] : samples.others) {
      batch.others[name] = part(tensor);
    }
  }
  return parts;
}

}  // namespace ampd::train
