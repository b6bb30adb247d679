// Tests the engine with the CUDA kernels, whose source runs here over an emulated CUDA on CPU tensors. The engine must
// give the same bits as with the CPU's kernels. This shows that it passes the right data to the CUDA kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "ATen/Context.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/builder/builder.h"
#include "models/models.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/engine.h"
#include "worker/amp/step/cuda_math.h"

namespace ampd::amp {
namespace {

std::unique_ptr<Engine> MakeEngine(const graph::Graph& model, const std::string& preset,
                                   const OptimizerConfig& optimizer, bool with_cuda) {
  EngineOptions options{.optimizer = optimizer, .seed = 3};
  if (with_cuda) {
    std::string why;
    options.device.cuda_kernels = kernels::KernelsUnderTest(&why);
  }
  return CpuEngine(model, PresetNamed(preset), options);
}

std::unique_ptr<Engine> MakeEngine(const std::string& preset, const OptimizerConfig& optimizer, bool with_cuda) {
  return MakeEngine(SmallLenet({4}), preset, optimizer, with_cuda);
}

Batch RandomBatch() { return {at::rand({8, 1, 8, 8}), at::randint(0, 4, {8}, at::kLong)}; }

void ExpectSameBits(const Engine& expected, const Engine& actual) {
  const EngineState left = expected.ExportState();
  const EngineState right = actual.ExportState();
  ASSERT_EQ(left.optimizer.size(), right.optimizer.size());
  for (const auto& [ours, theirs] : {std::pair(&left.model, &right.model), {&left.optimizer, &right.optimizer}}) {
    for (const auto& [name, tensor] : *ours) {
      const at::Tensor& other = theirs->at(name);
      ASSERT_EQ(std::memcmp(tensor.const_data_ptr(), other.const_data_ptr(), tensor.nbytes()), 0) << name;
    }
  }
  EXPECT_EQ(left.scaler, right.scaler);
  EXPECT_EQ(left.skipped_steps, right.skipped_steps);
}

class CudaEngineTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, CudaEngineTest, testing::Values("fp32", "bf16", "fp16"));

TEST_P(CudaEngineTest, StepsGiveTheCpuEnginesBits) {
  const OptimizerConfig optimizers[] = {
      {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01},
      {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 1e-2, .momentum = 0.9},
      {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 1e-2}};
  for (const OptimizerConfig& optimizer : optimizers) {
    const auto cpu = MakeEngine(GetParam(), optimizer, false);
    const auto cuda = MakeEngine(GetParam(), optimizer, true);
    for (int step = 0; step < 4; ++step) {
      std::vector<Batch> batches = {RandomBatch()};
      if (step % 2 == 1) {
        batches.push_back(RandomBatch());
      }
      const StepResult expected = cpu->Step(batches);
      const StepResult actual = cuda->Step(batches);
      EXPECT_EQ(actual.loss, expected.loss);
      EXPECT_FLOAT_EQ(actual.grad_norm, expected.grad_norm);
    }
    ExpectSameBits(*cpu, *cuda);
  }
}

TEST_P(CudaEngineTest, OverflowIsFoundAndNamedAndSkipsTheStep) {
  const OptimizerConfig optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2};
  const auto cpu = MakeEngine(GetParam(), optimizer, false);
  const auto cuda = MakeEngine(GetParam(), optimizer, true);
  const Batch good = RandomBatch();
  Batch bad = RandomBatch();
  bad.images.fill_(std::numeric_limits<float>::infinity());
  for (const Batch& batch : {good, bad, good}) {
    const StepResult expected = cpu->Step({batch});
    const StepResult actual = cuda->Step({batch});
    EXPECT_EQ(actual.skipped, expected.skipped);
    EXPECT_EQ(actual.overflow_parameter, expected.overflow_parameter);
    EXPECT_EQ(actual.overflow_count, expected.overflow_count);
  }
  EXPECT_EQ(cuda->skipped_steps(), 1);
  ExpectSameBits(*cpu, *cuda);
}

TEST_P(CudaEngineTest, GoesOnFromAnExportedState) {
  const OptimizerConfig optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2};
  const auto cpu = MakeEngine(GetParam(), optimizer, false);
  const auto cuda = MakeEngine(GetParam(), optimizer, true);
  cpu->Step({RandomBatch()});
  ASSERT_TRUE(cuda->ImportState(cpu->ExportState()).ok());
  const Batch batch = RandomBatch();
  EXPECT_EQ(cuda->Step({batch}).loss, cpu->Step({batch}).loss);
  ExpectSameBits(*cpu, *cuda);
}

// One engine computes FP8 codes, scales and amax histories with the CUDA kernels, the other with LibTorch's CPU ops.
// Without a GPU, both compute products in fp32.
TEST(CudaEngine, StepsInFp8GiveTheCpuEnginesBits) {
  v1::ModelSpec spec;
  spec.mutable_mlp()->set_in_features(64);
  spec.mutable_mlp()->set_num_classes(4);
  for (int layer = 0; layer < 2; ++layer) {
    spec.mutable_mlp()->add_hidden(128);
  }
  const graph::Graph mlp = *models::BuildModel(spec);
  const OptimizerConfig optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2};
  for (const char* preset : {"fp8", "fp8-delayed", "fp8-block"}) {
    const auto cpu = MakeEngine(mlp, preset, optimizer, false);
    const auto cuda = MakeEngine(mlp, preset, optimizer, true);
    for (int step = 0; step < 2; ++step) {
      const Batch batch = RandomBatch();
      EXPECT_EQ(cuda->Step({batch}).loss, cpu->Step({batch}).loss) << preset;
    }
    ExpectSameBits(*cpu, *cuda);
    const auto fp8 = cpu->ExportState().fp8;
    EXPECT_FALSE(fp8.empty());
    for (const auto& [name, tensor] : cuda->ExportState().fp8) {
      EXPECT_TRUE(at::equal(tensor, fp8.at(name))) << preset << " " << name;
    }
  }
}

// Two residual blocks and a head. The first block has a norm on each branch, and its result has two readers.
graph::Graph ResidualNet() {
  graph::GraphBuilder b("residual");
  const graph::ValueId images =
      b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 1, kImageSize, kImageSize}});
  const graph::Conv2dOptions conv = {.out_channels = 8, .kernel_size = 3, .padding = 1, .bias = false};
  const graph::ValueId stem = b.Relu("relu", b.BatchNorm2d("bn", b.Conv2d("conv", images, conv)));
  graph::ValueId x = b.Relu("block.relu1", b.BatchNorm2d("block.bn1", b.Conv2d("block.conv1", stem, conv)));
  x = b.BatchNorm2d("block.bn2", b.Conv2d("block.conv2", x, conv));
  x = b.Relu("block.relu2", b.Add("block", x, b.BatchNorm2d("block.bn3", b.Conv2d("block.conv3", stem, conv))));
  x = b.Relu("next.relu", b.Add("next", b.BatchNorm2d("next.bn", b.Conv2d("next.conv", x, conv)), x));
  b.Output("logits", b.Linear("head", b.Flatten("flatten", b.GlobalAvgPool2d("pool", x)), kClasses));
  return std::move(b).Build().value();
}

// Numbers of launches of emulated kernels, by kind.
struct Launches {
  int norms = 0;  // Forward passes of batch norms.
  int sums = 0;   // Backward passes of batch norms that add two gradients.
  int copies = 0;
};

// Returns the emulated kernels, which count some of their launches. Sets `*count` to the address of the counts.
const kernels::CudaKernels* CountingKernels(Launches** count) {
  static Launches launches;
  static int (*uncounted_copy)(kernels::CudaTable, const kernels::StepDecision*, void*) = nullptr;
  static const kernels::CudaBatchNormKernels* uncounted = nullptr;
  static kernels::CudaBatchNormKernels counting;
  static kernels::CudaKernels table = [] {
    std::string why;
    kernels::CudaKernels emulated = *kernels::KernelsUnderTest(&why);
    uncounted = emulated.batch_norm;
    counting = *uncounted;
    counting.forward = [](const kernels::CudaBatchNormForward* pass, void* stream) {
      ++launches.norms;
      return uncounted->forward(pass, stream);
    };
    counting.backward = [](const kernels::CudaBatchNormBackward* pass, void* stream) {
      launches.sums += pass->second_gradient != nullptr ? 1 : 0;
      return uncounted->backward(pass, stream);
    };
    emulated.batch_norm = &counting;
    uncounted_copy = emulated.copy;
    emulated.copy = [](kernels::CudaTable tensors, const kernels::StepDecision* if_skipped, void* stream) {
      ++launches.copies;
      return uncounted_copy(tensors, if_skipped, stream);
    };
    return emulated;
  }();
  *count = &launches;
  return &table;
}

class FusedBatchNormsTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Engine> Make(bool with_cuda, const std::vector<std::string>& segments = {}) {
    EngineOptions options{.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 1e-2}, .seed = 3};
    const kernels::CudaKernels* const counting = CountingKernels(&launches_);
    options.device.cuda_kernels = with_cuda ? counting : nullptr;
    options.checkpoint_segments = segments;
    return CpuEngine(ResidualNet(), PresetNamed(GetParam()), options);
  }

  Launches* launches_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Presets, FusedBatchNormsTest, testing::Values("fp32", "bf16", "fp16"));

TEST_P(FusedBatchNormsTest, FollowTheCpuEngine) {
  const auto cpu = Make(false);
  const auto cuda = Make(true);
  *launches_ = {};
  const double tolerance = std::string(GetParam()) == "fp32" ? 1e-4 : 2e-2;
  for (int step = 1; step <= 3; ++step) {
    const Batch batch = RandomBatch();
    const StepResult expected = cpu->Step({batch});
    const StepResult actual = cuda->Step({batch});
    EXPECT_NEAR(actual.loss, expected.loss, tolerance);
    EXPECT_NEAR(actual.grad_norm, expected.grad_norm, 3 * tolerance * expected.grad_norm);
    EXPECT_EQ(launches_->norms, 5 * step) << "all norms are fused";
    EXPECT_EQ(launches_->sums, step) << "only the first block's result has two readers";
    EXPECT_EQ(launches_->copies, 2 * step) << "statistics are kept and restored in one launch each";
  }
  const EngineState expected = cpu->ExportState();
  const EngineState actual = cuda->ExportState();
  for (const auto& [name, tensor] : expected.model) {
    EXPECT_TRUE(at::allclose(actual.model.at(name).to(at::kFloat), tensor.to(at::kFloat), 5 * tolerance, tolerance))
        << name;
  }
  cuda->Evaluate(RandomBatch());
  EXPECT_EQ(launches_->norms, 15) << "an evaluation has no norm in training mode";
}

TEST_P(FusedBatchNormsTest, ASkippedStepRestoresTheStatistics) {
  const auto cuda = Make(true);
  cuda->Step({RandomBatch()});
  const EngineState before = cuda->ExportState();
  Batch bad = RandomBatch();
  bad.images[1][0][2][3] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(cuda->Step({bad, RandomBatch()}).skipped);
  const EngineState after = cuda->ExportState();
  for (const char* const name : {"bn.running_mean", "bn.running_var", "block.bn2.running_mean"}) {
    EXPECT_TRUE(at::equal(after.model.at(name), before.model.at(name))) << name;
  }
}

// The result of the module "block" has two gradients, which are added. If the block is a checkpoint segment, autograd
// adds them; otherwise the kernels do. The test expects the same bits.
TEST_P(FusedBatchNormsTest, CheckpointSegmentsChangeNoBit) {
  const auto plain = Make(true);
  const auto segmented = Make(true, {"block"});
  *launches_ = {};
  for (int step = 0; step < 2; ++step) {
    const Batch batch = RandomBatch();
    EXPECT_EQ(segmented->Step({batch}).loss, plain->Step({batch}).loss);
  }
  EXPECT_EQ(launches_->norms, 2 * (5 + 5 + 3)) << "the block's norms run again in the backward pass";
  EXPECT_EQ(launches_->sums, 2) << "only without the segment";
  ExpectSameBits(*plain, *segmented);
}

TEST(UseCudaMath, Fp32ProductsAreIeeeUnlessThePolicySaysTf32) {
  at::Context& context = at::globalContext();
  for (const bool tf32 : {true, false}) {
    UseCudaMath({.preset = tf32 ? "tf32" : "fp32", .formats = {.tf32_matmul = tf32}});
    EXPECT_EQ(context.allowTF32CuBLAS(), tf32);
    EXPECT_EQ(context.allowTF32CuDNN(), tf32);
    for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV}) {
      EXPECT_EQ(context.float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32, tf32);
    }
    EXPECT_NE(context.allowFP16ReductionCuBLAS(), at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK);
    EXPECT_NE(context.allowBF16ReductionCuBLAS(), at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK);
  }
}

}  // namespace
}  // namespace ampd::amp
