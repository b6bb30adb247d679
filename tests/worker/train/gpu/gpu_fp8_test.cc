// Compares FP8 on a GPU with FP8 on the CPU: ampd's kernels, LibTorch's matrix products, and the training of a small
// GPT. Skipped without a GPU; scripts/gpu-check runs it on one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ATen/ops/equal.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "absl/strings/str_replace.h"
#include "ampd/v1/precision.pb.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "precision/policy.h"
#include "tests/host_gpu.h"
#include "tests/worker/train/gpu/gpu.h"
#include "worker/amp/engine.h"
#include "worker/amp/fp8/fp8_quantizer.h"

namespace ampd::train {
namespace {

using amp::Fp8Forms;
using amp::Fp8Grain;
using amp::Fp8Matrix;
using amp::Fp8Order;
using amp::Fp8Quantizer;

class GpuFp8Test : public testing::Test {
 protected:
  void SetUp() override {
    if (!HostHasGpu()) {
      GTEST_SKIP() << kNeedsGpu;
    }
    ASSERT_TRUE(Gpu().ok()) << Gpu().status();
  }

  static at::Tensor OnGpu(const at::Tensor& tensor) { return tensor.to(Gpu()->device); }

  // Returns a random FP8 matrix on the GPU.
  static Fp8Matrix InFp8(int64_t rows, int64_t columns, Fp8Grain grain, at::ScalarType format = at::kFloat8_e4m3fn) {
    const at::Tensor matrix = at::randn({rows, columns}).mul(at::rand({rows, 1}).add(0.01));
    const auto quantizer = Fp8Quantizer::Make({}, *Gpu());
    return quantizer->Quantize(OnGpu(matrix), {.grain = grain, .format = format, .plain = true}).plain;
  }

  static double Error(const at::Tensor& actual, const at::Tensor& expected) {
    const at::Tensor wide = expected.to(at::kDouble);
    return actual.to(at::kDouble).sub(wide).norm().item<double>() / wide.norm().item<double>();
  }
};

bool SameBits(const Fp8Matrix& gpu, const Fp8Matrix& cpu) {
  return at::equal(gpu.data.cpu().view(at::kByte), cpu.data.view(at::kByte)) &&
         at::equal(gpu.inverse_scale.cpu(), cpu.inverse_scale);
}

TEST_F(GpuFp8Test, Matrices_HaveTheCpusBits) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1000, 768}, {200, 136}, {5, 16}}) {
    for (const Fp8Grain grain : {Fp8Grain::kTensor, Fp8Grain::kRows, Fp8Grain::kSquares}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const at::Tensor matrix = at::randn({rows, columns}).to(dtype);
        const Fp8Order order = {.grain = grain, .plain = true, .transposed = true, .known_scale = {}};
        const Fp8Forms cpu = Fp8Quantizer::Make({}, {})->Quantize(matrix, order);
        const Fp8Forms gpu = Fp8Quantizer::Make({}, *Gpu())->Quantize(OnGpu(matrix), order);
        EXPECT_TRUE(SameBits(gpu.plain, cpu.plain)) << rows << "x" << columns;
        EXPECT_TRUE(SameBits(gpu.transposed, cpu.transposed)) << rows << "x" << columns;
      }
    }
  }
}

TEST_F(GpuFp8Test, ProductsOfTensors_AreThoseInFp32) {
  for (const at::ScalarType format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const Fp8Matrix a = InFp8(150, 520, Fp8Grain::kTensor, format);
    const Fp8Matrix b = InFp8(256, 520, Fp8Grain::kTensor);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor bias = OnGpu(at::randn({256}).to(dtype));
      for (const bool fast : {false, true}) {
        const at::Tensor native = amp::ProductOfTensorCores(a, b, bias, dtype, fast);
        EXPECT_EQ(native.scalar_type(), dtype);
        EXPECT_LT(Error(native, amp::ProductInFp32(a, b, bias, at::kFloat)), 0.01);
      }
    }
  }
}

// Tests the three matrix products of a layer with one FP8 scale per block. For the result and the input's gradient, the
// blocks of the first matrix are 1x128, and those of the second matrix are 128x128. For the weight's gradient, the
// blocks of both matrices are 1x128. The sizes cover edge cases:
//   * 5 blocks, not a multiple of 4;
//   * 150 rows, not a multiple of 16;
//   * 200 elements, which end inside a block.
TEST_F(GpuFp8Test, ProductsOfBlocks_AreThoseInFp32) {
  if (!amp::NativeFp8Of(*Gpu()).blocks) {
    std::printf("no product of blocks on this GPU: fp8-block multiplies in fp32\n");
    return;
  }
  for (const auto& [grain, inner] : {std::pair<Fp8Grain, int64_t>{Fp8Grain::kSquares, 640},
                                     {Fp8Grain::kSquares, 128},
                                     {Fp8Grain::kRows, 1024},
                                     {Fp8Grain::kRows, 200}}) {
    const Fp8Matrix a = InFp8(150, inner, Fp8Grain::kRows);
    const Fp8Matrix b = InFp8(256, inner, grain);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor bias = OnGpu(at::randn({256}).to(dtype));
      const at::Tensor native = amp::ProductOfBlocks(a, b, bias, dtype);
      EXPECT_EQ(native.sizes(), at::IntArrayRef({150, 256}));
      EXPECT_LT(Error(native, amp::ProductInFp32(a, b, bias, at::kFloat)), 0.01) << "a sum over " << inner;
    }
  }
}

constexpr int64_t kVocabulary = 64;
constexpr int64_t kSequence = 32;

// Trains a small GPT and returns its losses. If `ahead`, each step begins before the results of the previous step are
// read.
std::vector<float> Losses(const std::string& preset, const std::vector<amp::Batch>& batches, bool gpu,
                          bool ahead = false) {
  const graph::Graph model =
      models::BuildGpt(
          {.num_layers = 3, .width = 128, .num_heads = 4, .vocabulary = kVocabulary, .sequence_length = kSequence})
          .value();
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  const auto resolved =
      precision::ResolvePolicy(policy, *graph::WithLossHead(model), Described(gpu), precision::OptimizerKind::kAdam);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 3e-3};
  options.seed = 7;
  options.device = gpu ? *Gpu() : amp::ComputeDevice();
  const auto engine = *amp::Engine::Create(model, *resolved, options);
  std::vector<float> losses;
  const auto take_down_to = [&](int num_left) {
    while (engine->num_pending() > num_left) {
      losses.push_back(engine->AwaitStep().loss);
    }
  };
  for (const amp::Batch& batch : batches) {
    engine->Enqueue({batch});
    take_down_to(ahead ? engine->max_pending() : 0);
  }
  take_down_to(0);
  return losses;
}

// A test for one preset, so that an exception with one preset does not end the tests of the others.
class GpuFp8PresetTest : public GpuFp8Test, public testing::WithParamInterface<const char*> {};

std::vector<amp::Batch> TokenBatches() {
  std::vector<amp::Batch> batches;
  for (int i = 0; i < 30; ++i) {
    const at::Tensor tokens = at::randint(0, kVocabulary, {8, kSequence}, at::kLong);
    batches.push_back({tokens, tokens.mul(3).add(1).remainder(kVocabulary)});
  }
  return batches;
}

// Prints all losses, so that a failure can be examined without another run on a GPU. From step 10 on, the bound is
// relative to the first loss. By then the loss is a twentieth of the first one, and Adam turns small differences
// between gradients near 0 into updates of full size.
TEST_P(GpuFp8PresetTest, ASmallGptFollowsTheEmulatedOne) {
  const std::vector<amp::Batch> batches = TokenBatches();
  const std::vector<float> cpu = Losses(GetParam(), batches, false);
  const std::vector<float> gpu = Losses(GetParam(), batches, true);
  for (size_t i = 0; i < batches.size(); ++i) {
    std::printf("step %zu: %.5f on the GPU, %.5f on the CPU\n", i, gpu[i], cpu[i]);
    EXPECT_NEAR(gpu[i], cpu[i], i < 10 ? 0.05 * cpu[i] : 0.05 * cpu[0]) << "step " << i;
  }
  EXPECT_LT(gpu.back(), 0.05 * gpu.front()) << "the head is the embedding, so it begins far off";
}

TEST_P(GpuFp8PresetTest, ASmallGptHasTheSameBitsTwiceAndOneStepAhead) {
  const std::vector<amp::Batch> batches = TokenBatches();
  const std::vector<float> losses = Losses(GetParam(), batches, true);
  EXPECT_EQ(Losses(GetParam(), batches, true), losses) << "the same run twice";
  EXPECT_EQ(Losses(GetParam(), batches, true, /*ahead=*/true), losses) << "one step ahead";
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuFp8PresetTest, testing::Values("fp8", "fp8-delayed", "fp8-block"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return absl::StrReplaceAll(info.param, {{"-", "_"}});
                         });

}  // namespace
}  // namespace ampd::train
