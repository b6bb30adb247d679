#include "tests/worker/amp/small_problem.h"

#include "ATen/ops/empty.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/formats/sha256.h"
#include "base/random.h"
#include "models/models.h"

namespace ampd::amp {

graph::Graph SmallLenet(const std::vector<int>& widths) {
  v1::ModelSpec spec;
  spec.mutable_lenet()->set_image_size(kImageSize);
  spec.mutable_lenet()->set_num_classes(kClasses);
  spec.mutable_lenet()->set_hidden(16);
  spec.mutable_lenet()->mutable_widths()->Assign(widths.begin(), widths.end());
  return models::BuildModel(spec).value();
}

Batch MakeBatch(uint64_t seed, int64_t size) {
  SeededRandom random(seed);
  Batch batch{at::empty({size, 1, kImageSize, kImageSize}, at::kFloat), at::empty({size}, at::kLong)};
  auto* pixels = batch.images.data_ptr<float>();
  auto* labels = batch.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < size; ++i) {
    labels[i] = static_cast<int64_t>(random.Next() % kClasses);
    for (int pixel = 0; pixel < kImageSize * kImageSize; ++pixel) {
      const double noise = static_cast<double>(random.Next() >> 11) * 0x1p-53 - 0.5;
      const bool bright = pixel / kImageSize == labels[i];
      pixels[i * kImageSize * kImageSize + pixel] = static_cast<float>(noise + (bright ? 1 : 0));
    }
  }
  return batch;
}

std::string Bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

std::string DigestOf(const Engine& engine) {
  const EngineState state = engine.ExportState();
  Sha256 sha;
  for (const TensorMap* map : {&state.model, &state.optimizer, &state.fp8}) {
    for (const auto& [name, tensor] : *map) {
      sha.Update(name);
      sha.Update(Bytes(tensor));
    }
  }
  sha.Update(std::to_string(state.scaler.scale) + " " + std::to_string(state.scaler.growth_tracker) + " " +
             std::to_string(state.applied_steps) + " " + std::to_string(state.skipped_steps));
  for (const auto& [phase, applied] : state.applied_by_phase) {
    sha.Update(phase + " " + std::to_string(applied));
  }
  return sha.HexDigest();
}

}  // namespace ampd::amp
