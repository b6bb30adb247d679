#include "precision/cost/memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "graph/work.h"
#include "models/gpt.h"
#include "models/mlp.h"

namespace ampd::precision {
namespace {

constexpr int64_t kParameters = 3 * 8 * 8 + 24 + 64 + 8 + 2 * (4 * 64) + 32 + 8 + 3 * 16 + 5 * 8 + 4 * 8;

v1::PrecisionPolicy PresetNamed(const std::string& preset) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  return policy;
}

MemoryModel ModelOf(const v1::PrecisionPolicy& policy, const TrainingSetup& setup, bool evaluates = false) {
  const graph::Graph gpt =
      models::BuildGpt({.num_layers = 1, .width = 8, .num_heads = 2, .vocabulary = 5, .sequence_length = 4}).value();
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  const TrainedPrograms programs = TrainedPrograms::Of(gpt, evaluates).value();
  const auto resolved = ResolvePolicy(policy, programs.train, cpu, OptimizerKind::kAdam);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  auto memory = MemoryModel::Create(programs, *resolved, setup);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

MemoryModel ModelOf(const std::string& preset, const TrainingSetup& setup, bool evaluates = false) {
  return ModelOf(PresetNamed(preset), setup, evaluates);
}

TEST(MemoryModel, NarrowStateTakesTheBytesOfItsFormats) {
  using P = v1::PrecisionPolicy;
  const TrainingSetup setup = {.num_moments = 2};
  const MemoryEstimate plain = ModelOf("megatron-bf16", setup).At(3);
  EXPECT_EQ(plain.weights, 4 * kParameters);
  EXPECT_EQ(plain.working_copies, 2 * kParameters);
  P halves = PresetNamed("megatron-bf16");
  halves.set_master(P::bf16_remainder16);
  halves.set_optimizer_state(P::bf16);
  EXPECT_EQ(ModelOf(halves, setup).At(3).weights, 2 * kParameters);
  EXPECT_EQ(ModelOf(halves, setup).At(3).optimizer, 4 * kParameters);
  P bare = PresetNamed("megatron-bf16");
  bare.set_master(P::none);
  bare.set_stochastic_rounding(true);
  EXPECT_EQ(ModelOf(bare, setup).At(3).weights, 0);
  EXPECT_EQ(ModelOf(bare, setup).At(3).working_copies, 2 * kParameters);
  const MemoryEstimate averaged = ModelOf("megatron-bf16", {.num_moments = 2, .averages = true}).At(3);
  EXPECT_EQ(averaged.optimizer, plain.optimizer + (4 + 2) * kParameters);
}

TEST(MemoryModel, LastingBytesFollowPolicyAndOptimizer) {
  const MemoryEstimate fp32 = ModelOf("fp32", {.num_moments = 2}).At(3);
  EXPECT_EQ(fp32.weights, 4 * kParameters);
  EXPECT_EQ(fp32.working_copies, 0);
  EXPECT_EQ(fp32.optimizer, 8 * kParameters);
  EXPECT_EQ(fp32.inputs, 3 * (4 + 4) * 8);
  const MemoryEstimate bf16 = ModelOf("bf16", {.num_moments = 1}).At(3);
  EXPECT_EQ(bf16.weights, 4 * kParameters);
  // In bf16, only the linear layers of the block have working copies; the tied table and the norms stay in fp32.
  EXPECT_EQ(bf16.working_copies, 2 * (3 * 64 + 24 + 64 + 8 + 2 * (4 * 64) + 32 + 8));
  EXPECT_EQ(bf16.optimizer, 4 * kParameters);
}

TEST(MemoryModel, MicroBatchesAddFp32SumsAndTheirInputs) {
  const MemoryEstimate one = ModelOf("bf16", {.num_moments = 2}).At(3);
  const MemoryEstimate four = ModelOf("bf16", {.num_moments = 2, .num_micro_batches = 4}).At(3);
  EXPECT_EQ(four.inputs, 4 * one.inputs);
  EXPECT_EQ(four.gradients, one.gradients + 4 * kParameters);
  EXPECT_EQ(four.activations, one.activations);
}

TEST(MemoryModel, BatchesThatAreGatheredAheadAreHeldByStepAndEvaluation) {
  TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 4, .checkpoint_segments = {}, .eval_batch_size = 500};
  const MemoryEstimate step = ModelOf("bf16", setup).At(3);
  const MemoryEstimate evaluation = ModelOf("bf16", setup, true).At(3);
  setup.gathers_ahead = true;
  const int64_t ahead = BytesAhead(step.inputs);
  EXPECT_EQ(ModelOf("bf16", setup).At(3).inputs, step.inputs + ahead);
  EXPECT_EQ(ModelOf("bf16", setup).At(3).total(), step.total() + ahead);
  EXPECT_EQ(ModelOf("bf16", setup, true).At(3).total(), evaluation.total() + ahead);
}

TEST(MemoryModel, NoMoreThreadsGatherThanThereAreCoresBesideTheLoops) {
  EXPECT_EQ(GatherThreads(1), 1);
  EXPECT_EQ(GatherThreads(2), 1);
  EXPECT_EQ(GatherThreads(3), 2);
  EXPECT_EQ(GatherThreads(64), 2);
}

TEST(MemoryModel, OfSmallBatchesMoreAreGatheredAhead) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(BatchesAhead(100 * kMiB), 3);
  EXPECT_EQ(BytesAhead(100 * kMiB), 300 * kMiB);
  EXPECT_EQ(BatchesAhead(kMiB / 8), 16) << "32 windows of 256 tokens";
  EXPECT_EQ(BytesAhead(kMiB / 8), 2 * kMiB);
  EXPECT_EQ(BatchesAhead(100), 64);
  EXPECT_EQ(BytesAhead(100), 6400);
  EXPECT_EQ(BatchesAhead(0), 64) << "of nothing at all";
  int64_t last = 0;
  for (int64_t bytes = 1; bytes < 2 * kMiB; bytes += 1013) {
    ASSERT_GE(BytesAhead(bytes), BatchesAhead(bytes) * bytes);
    ASSERT_LE(BytesAhead(bytes), (BatchesAhead(bytes) + 1) * bytes);
    ASSERT_GE(BytesAhead(bytes), last) << "more bytes, so that a search for the largest batch ends";
    last = BytesAhead(bytes);
  }
}

TEST(MemoryModel, TheBatchesThatATrainerGathersAheadAreInTheMemoryOfACpuAlone) {
  const auto gathers_ahead = [](v1::Device::Kind kind) {
    v1::Device device;
    device.set_kind(kind);
    return TrainingSetup::Of(v1::JobSpec(), device).gathers_ahead;
  };
  EXPECT_TRUE(gathers_ahead(v1::Device::CPU));
  EXPECT_FALSE(gathers_ahead(v1::Device::GPU));
}

TEST(MemoryModel, TheLargestBatchFitsAndTheNextDoesNot) {
  const MemoryModel memory = ModelOf("bf16", {.num_moments = 2});
  for (int64_t available : {int64_t{40'000}, int64_t{1'000'000}, int64_t{123'456'789}}) {
    const int64_t largest = memory.LargestBatch(available);
    EXPECT_GT(largest, 0);
    EXPECT_LE(memory.At(largest).total(), available);
    EXPECT_GT(memory.At(largest + 1).total(), available);
  }
  EXPECT_EQ(memory.LargestBatch(memory.At(2).total() - 1), 1);
  EXPECT_EQ(memory.LargestBatch(memory.At(2).total()), 2);
  EXPECT_EQ(memory.LargestBatch(memory.At(1).total()), 1);
  EXPECT_EQ(memory.LargestBatch(memory.At(1).total() - 1), 0);
}

// Tries memory sizes from the smallest possible up to a terabyte. With the smaller ones, an evaluation needs more
// memory than a step, because its batch size is fixed.
TEST(MemoryModel, TheLargestBatchIsExactForAnyNumberOfBytes) {
  const MemoryModel memory = ModelOf("bf16", {.num_moments = 2, .eval_batch_size = 300}, true);
  const int64_t least = memory.At(1).total();
  for (int64_t available = least; available < (int64_t{1} << 40); available += available / 3 + 7) {
    const int64_t largest = memory.LargestBatch(available);
    ASSERT_GT(largest, 0);
    ASSERT_LE(memory.At(largest).total(), available);
    ASSERT_GT(memory.At(largest + 1).total(), available);
  }
}

TEST(MemoryModel, LowPrecisionFitsMoreSamples) {
  constexpr int64_t kAvailable = 10'000'000;
  EXPECT_GT(ModelOf("bf16", {.num_moments = 2}).LargestBatch(kAvailable),
            ModelOf("fp32", {.num_moments = 2}).LargestBatch(kAvailable));
}

TEST(MemoryModel, ThePeakIsAnEvaluationsWhereThatTakesMore) {
  const MemoryEstimate step = ModelOf("bf16", {.num_moments = 2}).At(3);
  const MemoryEstimate same = ModelOf("bf16", {.num_moments = 2}, true).At(3);
  EXPECT_EQ(same.total(), step.total()) << "with as many samples it needs less: no gradients, no saved values";
  EXPECT_EQ(same.gradients, step.gradients);
  const MemoryModel memory = ModelOf("bf16", {.num_moments = 2, .eval_batch_size = 500}, true);
  const MemoryEstimate large = memory.At(3);
  EXPECT_GT(large.total(), step.total());
  EXPECT_EQ(large.gradients, 0);
  EXPECT_EQ(large.inputs, 500 * (4 + 4) * 8);
  EXPECT_EQ(large.weights, step.weights);
  EXPECT_EQ(large.optimizer, step.optimizer);
  EXPECT_EQ(memory.At(5000).total(), ModelOf("bf16", {.num_moments = 2}).At(5000).total());
  EXPECT_EQ(memory.LargestBatch(large.total() - 1), 0) << "no batch makes the evaluation fit";
  EXPECT_GT(memory.LargestBatch(large.total()), 3);
}

TEST(MemoryModel, OnAGpuWorkspacesInputsOfRecordedStepsAndCudaItselfStay) {
  constexpr int64_t kWorkspaces = int64_t{128} << 20;
  constexpr int64_t kCuda = int64_t{640} << 20;
  const TrainingSetup cpu = {
      .num_moments = 2, .num_micro_batches = 4, .checkpoint_segments = {}, .eval_batch_size = 500};
  TrainingSetup gpu = cpu;
  gpu.on_gpu = true;
  const MemoryEstimate evaluation = ModelOf("bf16", gpu, true).At(3);
  EXPECT_EQ(evaluation.workspace, ModelOf("bf16", cpu, true).At(3).workspace + kWorkspaces);
  EXPECT_EQ(evaluation.runtime, kCuda);
  EXPECT_EQ(ModelOf("bf16", cpu, true).At(3).runtime, 0);
  EXPECT_EQ(evaluation.inputs, (500 + 2 * 4 * 3) * (4 + 4) * 8);
  EXPECT_EQ(ModelOf("bf16", gpu, true).At(1000).total(),
            ModelOf("bf16", cpu, true).At(1000).total() + kWorkspaces + kCuda + int64_t{5} * 1000 * (4 + 4) * 8)
      << "what a recorded step works in is counted once; beside its inputs there are those of the next step, and those "
         "of one that runs op by op";
}

// A GPU computes a batch norm with the addition and the ReLU behind it as one op. Its backward pass computes all their
// gradients at once.
TEST(MemoryModel, OnAGpuNormsAreFused) {
  graph::GraphBuilder b("norm");
  const graph::ValueId images = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 4, 16, 16}});
  const graph::ValueId x = b.Conv2d("conv", images, {.out_channels = 4, .kernel_size = 1});
  const graph::ValueId y = b.Relu("relu", b.Add("", x, b.BatchNorm2d("norm", x)));
  b.Output("logits", b.Linear("head", b.Flatten("flatten", b.GlobalAvgPool2d("pool", y)), 3));
  const graph::Graph model = std::move(b).Build().value();
  const auto estimate = [&](bool on_gpu) {
    v1::Device cpu;
    cpu.set_kind(v1::Device::CPU);
    const TrainedPrograms programs = TrainedPrograms::Of(model, /*evaluates=*/false).value();
    const auto policy = ResolvePolicy(PresetNamed("fp32"), programs.train, cpu, OptimizerKind::kAdam).value();
    const TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}, .on_gpu = on_gpu};
    return MemoryModel::Create(programs, policy, setup)->At(64);
  };
  const MemoryEstimate cpu = estimate(false);
  const MemoryEstimate gpu = estimate(true);
  constexpr int64_t kWorkspaces = int64_t{128} << 20;
  constexpr int64_t kImages = int64_t{64} * 4 * 16 * 16 * 4;
  EXPECT_EQ(gpu.weights, cpu.weights) << "the statistics are kept for a skipped step";
  EXPECT_LE(gpu.activations, cpu.activations);
  EXPECT_LT(cpu.workspace, 3 * kImages);
  EXPECT_GE(gpu.workspace, kWorkspaces + 3 * kImages) << "gradients of input and residual beside that of the result";
  EXPECT_LT(gpu.workspace, kWorkspaces + 3 * kImages + (1 << 19));
}

TEST(TrainedPrograms, AreCountableUpToWhatAnyMachineHas) {
  const graph::Graph gpt =
      models::BuildGpt({.num_layers = 1, .width = 8, .num_heads = 2, .vocabulary = 5, .sequence_length = 4}).value();
  const TrainedPrograms alone = TrainedPrograms::Of(gpt, /*evaluates=*/false).value();
  const TrainedPrograms both = TrainedPrograms::Of(gpt, &gpt).value();
  int64_t most = 1;
  while (alone.AreCountable(2 * most)) {
    most *= 2;
  }
  EXPECT_GT(most, int64_t{1} << 30);
  EXPECT_LT(most, int64_t{1} << 45);
  EXPECT_FALSE(both.AreCountable(2 * most));
  EXPECT_TRUE(both.AreCountable(most / 4));
  EXPECT_FALSE(alone.AreCountable(std::numeric_limits<int64_t>::max()));
}

// ChooseSegments selects the blocks whose values the backward pass recomputes. If the budget is exactly the memory that
// is needed when the first k blocks are recomputed, it must select these. If the budget is too small even with all
// blocks recomputed, it must select all and report that they do not fit.
TEST(ChooseSegments, TakesAsFewBlocksAsTheBudgetNeeds) {
  const graph::Graph gpt =
      models::BuildGpt({.num_layers = 4, .width = 32, .num_heads = 2, .vocabulary = 64, .sequence_length = 16}).value();
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  const TrainedPrograms programs = TrainedPrograms::Of(gpt, /*evaluates=*/false).value();
  const auto policy = ResolvePolicy(PresetNamed("bf16"), programs.train, cpu, OptimizerKind::kAdam).value();
  constexpr int64_t kBatch = 32;
  const auto choose = [&](int64_t bytes) {
    return ChooseSegments(programs, policy, {.num_moments = 2}, kBatch, bytes).value();
  };
  std::vector<std::string> blocks;
  int64_t last = std::numeric_limits<int64_t>::max();
  for (int k = 0; k <= 4; ++k) {
    const TrainingSetup setup = {.num_moments = 2, .checkpoint_segments = blocks};
    const int64_t needed = MemoryModel::Create(programs, policy, setup).value().At(kBatch).total();
    ASSERT_LT(needed, last) << k << " blocks";
    const SegmentChoice choice = choose(needed);
    EXPECT_EQ(choice.segments, blocks);
    EXPECT_TRUE(choice.fits);
    EXPECT_EQ(choice.estimate.total(), needed);
    last = needed;
    blocks.push_back("transformer.h." + std::to_string(k));
  }
  const SegmentChoice least = choose(last - 1);
  EXPECT_FALSE(least.fits);
  EXPECT_EQ(least.segments.size(), 4);
}

// Chooses the segments for a small network of `num_blocks` blocks, in fp32 on a CPU.
SegmentChoice Choose(int num_blocks, int64_t bytes, graph::Work* work = nullptr, bool is_mlp = false) {
  v1::MlpSpec mlp;
  mlp.set_in_features(8);
  for (int i = 0; is_mlp && i < num_blocks; ++i) {
    mlp.add_hidden(8 + i % 3);
  }
  const graph::Graph model =
      is_mlp ? models::BuildMlp(mlp).value()
             : models::BuildGpt(
                   {.num_layers = num_blocks, .width = 16, .num_heads = 2, .vocabulary = 32, .sequence_length = 8})
                   .value();
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  const TrainedPrograms programs = TrainedPrograms::Of(model, /*evaluates=*/true).value();
  const auto policy = ResolvePolicy(PresetNamed("fp32"), programs.train, cpu, OptimizerKind::kAdam).value();
  return ChooseSegments(programs, policy, {.num_moments = 2}, /*batch_size=*/64, bytes, work).value();
}

TEST(ChooseSegments, OfManyBlocksTakesANumberThatFitsWhereOneLessDoesNot) {
  constexpr int kBlocks = 40;
  const int64_t least = Choose(kBlocks, 1).estimate.total();
  const int64_t most = Choose(kBlocks, std::numeric_limits<int64_t>::max()).estimate.total();
  ASSERT_LT(2 * least, most);
  size_t last = kBlocks + 1;
  for (int part = 1; part < 4; ++part) {
    const int64_t bytes = least + (most - least) * part / 4;
    const SegmentChoice choice = Choose(kBlocks, bytes);
    ASSERT_TRUE(choice.fits) << part;
    EXPECT_LE(choice.estimate.total(), bytes);
    EXPECT_LT(choice.segments.size(), last) << "more room takes fewer blocks";
    // Each further block that is recomputed lowers the estimate for this network. So with a budget one byte smaller,
    // one more block must be recomputed.
    EXPECT_EQ(Choose(kBlocks, choice.estimate.total() - 1).segments.size(), choice.segments.size() + 1);
    last = choice.segments.size();
  }
}

TEST(ChooseSegments, WorkGrowsWithTheModelAndNotWithItsSquare) {
  const auto visited = [](int num_blocks, int64_t bytes, bool is_mlp) {
    graph::Work work;
    Choose(num_blocks, bytes, &work, is_mlp);
    return static_cast<double>(work.num_visited());
  };
  constexpr int64_t kNone = 1;
  for (const int num_blocks : {16, 32, 64}) {
    EXPECT_LT(visited(2 * num_blocks, kNone, false), 2.5 * visited(num_blocks, kNone, false)) << num_blocks;
  }
  for (const int num_blocks : {16, 32}) {
    EXPECT_LT(visited(2 * num_blocks, kNone, true), 2.5 * visited(num_blocks, kNone, true)) << num_blocks;
  }
  // With this memory budget, the backward pass must recompute some blocks, but not all.
  const int64_t half = Choose(64, std::numeric_limits<int64_t>::max()).estimate.total() / 2;
  EXPECT_LT(visited(128, 2 * half, false), 2.5 * visited(64, half, false));
}

TEST(ChooseSegments, StopsSoonWhenNobodyWaitsForTheChoice) {
  const graph::Graph gpt =
      models::BuildGpt({.num_layers = 64, .width = 16, .num_heads = 2, .vocabulary = 32, .sequence_length = 8}).value();
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  const TrainedPrograms programs = TrainedPrograms::Of(gpt, /*evaluates=*/false).value();
  const auto policy = ResolvePolicy(PresetNamed("fp32"), programs.train, cpu, OptimizerKind::kAdam).value();
  for (const int num_questions : {0, 1, 3}) {
    int num_asked = 0;
    graph::Work work([&] { return num_asked++ >= num_questions; });
    const auto choice = ChooseSegments(programs, policy, {.num_moments = 2}, 64, /*bytes=*/1, &work);
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kCancelled);
    EXPECT_LT(work.num_visited(), (num_questions + 3) * graph::Work::kNodesBetweenQuestions) << num_questions;
    EXPECT_EQ(num_asked, num_questions + 1);
  }
  graph::Work whole;
  ASSERT_TRUE(ChooseSegments(programs, policy, {.num_moments = 2}, 64, /*bytes=*/1, &whole).ok());
  EXPECT_GT(whole.num_visited(), 8 * graph::Work::kNodesBetweenQuestions) << "there was nothing to stop";
}

}  // namespace
}  // namespace ampd::precision
