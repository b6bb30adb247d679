// Compares the engine on a GPU with the engine on the CPU, with the same weights, batches and policy. Skipped without a
// GPU; scripts/gpu-check runs it on one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ATen/ops/empty.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "absl/time/clock.h"
#include "ampd/v1/job_spec.pb.h"
#include "c10/util/Exception.h"
#include "graph/passes.h"
#include "models/models.h"
#include "precision/policy.h"
#include "tests/host_gpu.h"
#include "tests/worker/tolerances.h"
#include "tests/worker/train/gpu/gpu.h"
#include "worker/amp/engine.h"

namespace ampd::train {
namespace {

constexpr int kSteps = 30;
constexpr int64_t kBatchSize = 32;

struct Trained {
  std::vector<float> losses;
  std::vector<bool> skipped;
  amp::EngineState state;
  double seconds = 0;
  bool emulated = false;
};

class GpuTrainingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HostHasGpu()) {
      GTEST_SKIP() << kNeedsGpu;
    }
    ASSERT_TRUE(Gpu().ok()) << Gpu().status();
    for (int i = 0; i < kSteps; ++i) {
      batches_.push_back({at::rand({kBatchSize, 1, 28, 28}), at::randint(0, 10, {kBatchSize}, at::kLong)});
    }
  }

  Trained Train(const std::string& preset, bool gpu, double initial_scale = 0) {
    v1::ModelSpec spec;
    spec.mutable_lenet();
    const graph::Graph model = *models::BuildModel(spec);
    v1::PrecisionPolicy policy;
    policy.set_preset(preset);
    if (initial_scale > 0) {
      policy.mutable_loss_scale()->mutable_dynamic()->set_initial(initial_scale);
      policy.mutable_loss_scale()->mutable_dynamic()->set_cap(initial_scale);
    }
    const auto resolved =
        precision::ResolvePolicy(policy, *graph::WithLossHead(model), Described(gpu), precision::OptimizerKind::kAdam);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    amp::EngineOptions options;
    options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
    options.clip_grad_norm = 1.0;
    options.seed = 7;
    options.device = gpu ? *Gpu() : amp::ComputeDevice();
    const auto engine = *amp::Engine::Create(model, *resolved, options);
    Trained run;
    run.emulated = resolved->emulated();
    const absl::Time begin = absl::Now();
    for (const amp::Batch& batch : batches_) {
      const amp::StepResult result = engine->Step({batch});
      run.losses.push_back(result.loss);
      run.skipped.push_back(result.skipped);
    }
    run.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    run.state = engine->ExportState();
    return run;
  }

  void ExpectClose(const std::string& preset) {
    const std::string on_cpu = preset == "tf32" ? "fp32" : preset;
    const Trained cpu = Train(on_cpu, false);
    const Trained gpu = Train(preset, true);
    double worst = 0;
    for (int i = 0; i < kSteps; ++i) {
      worst = std::max<double>(worst, std::abs(gpu.losses[i] - cpu.losses[i]) / cpu.losses[i]);
    }
    EXPECT_LT(worst, ToleranceOf(preset).device) << preset;
    if (HasFailure()) {
      std::printf("the CPU again: %s losses; the GPU again: %s losses\n",
                  Train(on_cpu, false).losses == cpu.losses ? "the same" : "other",
                  Train(preset, true).losses == gpu.losses ? "the same" : "other");
      for (int i = 0; i < kSteps; ++i) {
        std::printf("step %d: %.9g on the CPU, %.9g on the GPU\n", i, cpu.losses[i], gpu.losses[i]);
      }
    }
    EXPECT_FALSE(gpu.emulated);
    std::printf("%s: losses differ by at most %.2e; %.1f steps/s on the GPU, %.1f on the CPU\n", preset.c_str(), worst,
                kSteps / gpu.seconds, kSteps / cpu.seconds);
  }

  std::vector<amp::Batch> batches_;
};

TEST_F(GpuTrainingTest, Fp32_LossesAreTheCpus) { ExpectClose("fp32"); }
TEST_F(GpuTrainingTest, Tf32_LossesAreNearTheCpusFp32) { ExpectClose("tf32"); }
TEST_F(GpuTrainingTest, Bf16_LossesAreNearTheCpus) { ExpectClose("bf16"); }
TEST_F(GpuTrainingTest, Fp16_NativeLossesAreNearTheEmulatedOnes) { ExpectClose("fp16"); }

TEST_F(GpuTrainingTest, Fp16_OverflowsAreSkippedAsOnTheCpu) {
  const Trained cpu = Train("fp16", false, 0x1p30);
  const Trained gpu = Train("fp16", true, 0x1p30);
  EXPECT_TRUE(gpu.skipped[0]);
  EXPECT_FALSE(gpu.skipped.back());
  EXPECT_NEAR(static_cast<double>(gpu.state.skipped_steps), static_cast<double>(cpu.state.skipped_steps), 1);
}

// A test for one preset, so that an exception with one preset does not end the tests of the others.
class GpuTrainingPresetTest : public GpuTrainingTest, public testing::WithParamInterface<const char*> {};

TEST_P(GpuTrainingPresetTest, TheSameRunTwice_GivesTheSameBits) {
  const Trained one = Train(GetParam(), true);
  const Trained two = Train(GetParam(), true);
  EXPECT_EQ(one.losses, two.losses);
  for (const auto& [name, tensor] : one.state.model) {
    EXPECT_EQ(std::memcmp(tensor.const_data_ptr(), two.state.model.at(name).const_data_ptr(), tensor.nbytes()), 0)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuTrainingPresetTest, testing::Values("fp32", "bf16", "fp16"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

TEST_F(GpuTrainingTest, MemoryIsTheCachingAllocators) {
  ResetPeakMemory(*Gpu());
  const DeviceMemory before = GetMemory(*Gpu());
  {
    const at::Tensor tensor = at::empty({1 << 20}, at::TensorOptions().device(Gpu()->device).dtype(at::kFloat));
    EXPECT_GE(GetMemory(*Gpu()).allocated_bytes, before.allocated_bytes + (4 << 20));
  }
  EXPECT_EQ(GetMemory(*Gpu()).allocated_bytes, before.allocated_bytes);
  EXPECT_GE(GetMemory(*Gpu()).reserved_peak_bytes, GetMemory(*Gpu()).peak_bytes);
  EXPECT_GE(GetMemory(*Gpu()).peak_bytes, before.allocated_bytes + (4 << 20));
}

TEST_F(GpuTrainingTest, MoreMemoryThanThereIs_IsOutOfMemoryAndTheNextStepRuns) {
  EXPECT_THROW(at::empty({int64_t{1} << 42}, at::TensorOptions().device(Gpu()->device).dtype(at::kByte)),
               c10::OutOfMemoryError);
  EXPECT_TRUE(std::isfinite(Train("bf16", true).losses.back()));
}

TEST_F(GpuTrainingTest, TheDeviceHasANameAndItsOwnUuidOnly) {
  std::printf("%s\n", NameOf(*Gpu()).c_str());
  EXPECT_NE(NameOf(*Gpu()), "a GPU");
  v1::Device placed = Described(true);
  EXPECT_TRUE(CheckPlacedHere(placed, *Gpu()).ok());
  placed.set_uuid("GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_FALSE(CheckPlacedHere(placed, *Gpu()).ok());
}

}  // namespace
}  // namespace ampd::train
