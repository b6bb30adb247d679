#include "worker/data/noise.h"

#include "ATen/ops/empty.h"
#include "c10/util/accumulate.h"
#include "worker/data/philox.h"
#include "worker/data/reused_tensor.h"

namespace ampd::data {
namespace {

// The noise of an epoch is drawn from the random stream kNoise + epoch. The offset makes these streams differ from
// those of the sampler (numbered by epoch) and of augmentation (from 2^63 on).
constexpr uint64_t kNoise = uint64_t{1} << 62;
constexpr uint64_t kFixedNoise = uint64_t{1} << 61;

}  // namespace

at::Tensor NoiseOf(uint64_t seed, int64_t epoch, const std::vector<int64_t>& samples, const std::vector<int64_t>& shape,
                   const at::Tensor& reuse) {
  std::vector<int64_t> extents = {static_cast<int64_t>(samples.size())};
  extents.insert(extents.end(), shape.begin(), shape.end());
  at::Tensor noise = EmptyLikeOr(reuse, extents, at::kFloat);
  const int64_t num_numbers = c10::multiply_integers(shape);
  float* out = noise.data_ptr<float>();
  for (const int64_t sample : samples) {
    const auto begin = static_cast<uint64_t>(sample) * static_cast<uint64_t>(num_numbers);
    for (uint64_t i = 0; i < static_cast<uint64_t>(num_numbers); ++i) {
      *out++ = PhiloxNormal(seed, kNoise | static_cast<uint64_t>(epoch), begin + i);
    }
  }
  return noise;
}

at::Tensor FixedNoiseOf(uint64_t seed, int64_t num_rows, int64_t num_numbers) {
  at::Tensor noise = at::empty({num_rows, num_numbers}, at::kFloat);
  float* const out = noise.data_ptr<float>();
  for (int64_t i = 0; i < noise.numel(); ++i) {
    out[i] = PhiloxNormal(seed, kFixedNoise, static_cast<uint64_t>(i));
  }
  return noise;
}

}  // namespace ampd::data
