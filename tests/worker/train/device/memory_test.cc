// Compares the estimated memory of a training step with the memory that the step uses, as the counting allocator
// measures it.

#include "precision/cost/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/ones_like.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/zeros.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "graph/cost/memory.h"
#include "graph/fused_batch_norms.h"
#include "graph/losses.h"
#include "graph/passes.h"
#include "graph/rewriter.h"
#include "models/bert.h"
#include "models/dcgan.h"
#include "models/efficientnet.h"
#include "models/gpt.h"
#include "models/gpt2.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/rnn.h"
#include "tests/host_cpu.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/engine.h"
#include "worker/amp/ops/batch_norm.h"
#include "worker/amp/step/format.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd::train {
namespace {

struct Network {
  const char* name;
  graph::Graph (*build)();
  int64_t batch_size;
  const char* blocks;  // Glob of the modules that are checkpoint segments.
};

graph::Graph Mlp() {
  v1::MlpSpec spec;
  for (int width : {512, 512}) {
    spec.add_hidden(width);
  }
  return models::BuildMlp(spec).value();
}

graph::Graph Lenet() { return models::BuildLenet(v1::LenetSpec()).value(); }

graph::Graph Resnet() { return models::BuildResnet({.widths = {16, 32}, .blocks = {2, 2}, .image_size = 16}).value(); }

graph::Graph Gpt() {
  return models::BuildGpt({.num_layers = 3, .width = 96, .num_heads = 4, .vocabulary = 512, .sequence_length = 64})
      .value();
}

graph::Graph UntiedGpt() {
  return models::BuildGpt({.num_layers = 4,
                           .width = 64,
                           .num_heads = 2,
                           .vocabulary = 128,
                           .sequence_length = 32,
                           .tied_head = false})
      .value();
}

graph::Graph Gpt2() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(3);
  spec.set_n_embd(96);
  spec.set_n_head(4);
  spec.set_n_positions(128);
  spec.set_vocab_size(512);
  return models::BuildGpt2(spec, 64).value();
}

graph::Graph Bert() {
  v1::BertClassifierSpec spec;
  spec.set_num_hidden_layers(3);
  spec.set_hidden_size(96);
  spec.set_num_attention_heads(4);
  spec.set_max_position_embeddings(128);
  spec.set_vocab_size(512);
  spec.set_num_labels(10);
  return models::BuildBertClassifier(spec, 64).value();
}

constexpr Network kNetworks[] = {{"mlp", Mlp, 256, "layers.1"},        {"mlp_small_batch", Mlp, 4, "layers.[12]"},
                                 {"lenet", Lenet, 32, "features"},     {"resnet", Resnet, 16, "layer?.?"},
                                 {"gpt", Gpt, 8, "transformer.h.*"},   {"gpt_untied", UntiedGpt, 16, "transformer.h.*"},
                                 {"gpt2", Gpt2, 8, "transformer.h.*"}, {"bert", Bert, 8, "bert.encoder.layer.*"}};

amp::Batch BatchOf(const graph::Graph& model, int64_t batch_size) {
  const graph::TensorType& type = model.type(model.inputs()[0]);
  std::vector<int64_t> sizes;
  for (const graph::Dim& dim : type.shape) {
    sizes.push_back(dim.At(batch_size));
  }
  if (model.FindInput("attention_mask").has_value()) {
    return {at::randint(0, 100, sizes, at::kLong),
            at::randint(0, 10, {batch_size}, at::kLong),
            {{"attention_mask", at::ones(sizes, at::kBool)}, {"token_type_ids", at::zeros(sizes, at::kLong)}}};
  }
  if (type.dtype == graph::Dtype::kInt64) {
    return {at::randint(0, 100, sizes, at::kLong), at::randint(0, 100, sizes, at::kLong)};
  }
  amp::Batch batch = {at::rand(sizes), at::randint(0, 10, {batch_size}, at::kLong)};
  if (const auto noise = model.FindInput("noise"); noise.has_value()) {
    batch.others["noise"] = at::rand({batch_size, model.type(*noise).shape[1].factor()});
  }
  return batch;
}

v1::Device Cpu() {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  return cpu;
}

// A CPU without fast bf16 products, on which the policy computes bf16 products in fp32.
v1::Device SlowBf16Cpu() {
  v1::Device cpu = Cpu();
  cpu.set_name("Intel(R) Xeon(R) Processor");
  cpu.add_instruction_sets("avx512_fp16");
  return cpu;
}

// Whether the memory with this preset can be measured on this host. Without AVX-512, LibTorch copies 16-bit
// convolutions to fp32, which the estimate does not count, and computes 16-bit products so slowly that a test takes
// minutes.
bool IsMeasurable(std::string_view preset) {
  if (preset != "fp32" && !HostHasAvx512()) {
    std::cout << preset << " is not measured: this CPU has no AVX-512\n";
    return false;
  }
  return true;
}

precision::ResolvedPolicy Resolve(const graph::Graph& model, const v1::PrecisionPolicy& policy,
                                  const v1::Device& cpu = Cpu()) {
  return precision::ResolvePolicy(policy, *graph::TrainedGraph(model), cpu, precision::OptimizerKind::kAdam).value();
}

precision::ResolvedPolicy Resolve(const graph::Graph& model, const std::string& preset, const v1::Device& cpu = Cpu()) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  return Resolve(model, policy, cpu);
}

precision::MemoryModel MemoryOf(const graph::Graph& model, const precision::ResolvedPolicy& policy,
                                const precision::TrainingSetup& setup, bool evaluates = false) {
  const auto programs = precision::TrainedPrograms::Of(model, evaluates).value();
  return precision::MemoryModel::Create(programs, policy, setup).value();
}

// Returns the peak of the bytes of all tensors in the second step, including the tensors that persist between steps.
int64_t MeasuredPeak(const graph::Graph& model, const precision::ResolvedPolicy& policy, int64_t batch_size,
                     const precision::TrainingSetup& setup, const kernels::CudaKernels* cuda_kernels = nullptr) {
  const int64_t before = GetCpuMemory().allocated_bytes;
  amp::EngineOptions options;
  options.device.cuda_kernels = cuda_kernels;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  options.optimizer.ema_decay = setup.averages ? std::optional(0.9) : std::nullopt;
  options.checkpoint_segments = setup.checkpoint_segments;
  for (const graph::Loss& loss : graph::LossesOf(model)) {
    options.phases.push_back({.name = loss.network,
                              .loss = loss.output,
                              .parameters = loss.parameters,
                              .optimizer = options.optimizer,
                              .schedule = {},
                              .clip_grad_norm = {}});
  }
  auto engine = amp::Engine::Create(model, policy, options).value();
  std::vector<amp::Batch> batches;
  for (int i = 0; i < setup.num_micro_batches; ++i) {
    batches.push_back(BatchOf(model, batch_size));
  }
  engine->Step(batches);
  ResetPeakCpuMemory();
  engine->Step(batches);
  return GetCpuMemory().peak_bytes - before;
}

// Predicts and measures the peak of memory, prints both, and returns the predicted peak divided by the measured one.
double PredictedOverMeasured(const Network& network, const std::string& preset, const precision::TrainingSetup& setup,
                             const v1::Device& cpu = Cpu()) {
  const graph::Graph model = network.build();
  const auto policy = Resolve(model, preset, cpu);
  const precision::MemoryEstimate estimate = MemoryOf(model, policy, setup).At(network.batch_size);
  const auto measured = static_cast<double>(MeasuredPeak(model, policy, network.batch_size, setup));
  const double ratio = static_cast<double>(estimate.total()) / measured;
  std::cout << network.name << " " << preset << " x" << setup.num_micro_batches
            << (setup.checkpoint_segments.empty() ? "" : " segments") << ": predicted " << estimate.total() << ", "
            << ratio << " of the measured; activations " << estimate.activations << " gradients " << estimate.gradients
            << " workspace " << estimate.workspace << "\n";
  return ratio;
}

TEST(MemoryModel, PeakIsWithinATenthOfTheMeasured) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const Network& network : kNetworks) {
    for (const char* preset : {"fp32", "bf16", "torch-amp-bf16", "megatron-bf16", "deepspeed-bf16", "fp16", "fp8"}) {
      if (!IsMeasurable(preset)) {
        continue;
      }
      const bool policy_is_emulated = Resolve(network.build(), preset).emulated();
      for (int num_micro_batches : {1, 2}) {
        for (const bool segments : {false, true}) {
          precision::TrainingSetup setup = {
              .num_moments = 2, .num_micro_batches = num_micro_batches, .checkpoint_segments = {}};
          if (segments) {
            setup.checkpoint_segments = {network.blocks};
          }
          const double ratio = PredictedOverMeasured(network, preset, setup);
          // A CPU makes fp32 copies for emulated formats. A real device makes no such copies and the estimate does not
          // count them, so the ratio is only printed.
          if (!policy_is_emulated) {
            EXPECT_NEAR(ratio, 1, 0.1) << network.name << " " << preset << " x" << num_micro_batches << segments;
          }
        }
      }
    }
  }
}

TEST(MemoryModel, CountsTheWideCopiesOfProductsOfBf16) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const Network& network : kNetworks) {
    for (const bool segments : {false, true}) {
      precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}};
      if (segments) {
        setup.checkpoint_segments = {network.blocks};
      }
      EXPECT_NEAR(PredictedOverMeasured(network, "bf16", setup, SlowBf16Cpu()), 1, 0.1) << network.name << segments;
    }
  }
}

// Returns the peak of the bytes of all tensors in an evaluation after a step, including the tensors that persist.
int64_t MeasuredEvaluationPeak(const graph::Graph& model, const precision::ResolvedPolicy& policy, int64_t step_size,
                               int64_t evaluation_size) {
  const int64_t before = GetCpuMemory().allocated_bytes;
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  auto engine = amp::Engine::Create(model, policy, options).value();
  engine->Step({BatchOf(model, step_size)});
  const amp::Batch batch = BatchOf(model, evaluation_size);
  engine->Evaluate(batch);
  ResetPeakCpuMemory();
  engine->Evaluate(batch);
  return GetCpuMemory().peak_bytes - before;
}

TEST(MemoryModel, AnEvaluationOfManySamplesIsWithinATenthOfTheMeasured) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const Network& network : kNetworks) {
    const graph::Graph model = network.build();
    for (const char* preset : {"fp32", "bf16", "torch-amp-bf16", "megatron-bf16"}) {
      if (!IsMeasurable(preset)) {
        continue;
      }
      const auto policy = Resolve(model, preset);
      const int64_t evaluation_size = network.batch_size < 8 ? 2048 : 16 * network.batch_size;
      const precision::TrainingSetup setup = {
          .num_moments = 2, .checkpoint_segments = {}, .eval_batch_size = evaluation_size};
      const auto estimate = MemoryOf(model, policy, setup, /*evaluates=*/true).At(network.batch_size);
      ASSERT_EQ(estimate.gradients, 0) << network.name << " " << preset << ": the step needs more than the evaluation";
      const auto measured =
          static_cast<double>(MeasuredEvaluationPeak(model, policy, network.batch_size, evaluation_size));
      const double ratio = static_cast<double>(estimate.total()) / measured;
      std::cout << network.name << " " << preset << " evaluation: predicted " << estimate.total() << ", " << ratio
                << " of the measured\n";
      EXPECT_NEAR(ratio, 1, 0.1) << network.name << " " << preset;
    }
  }
}

TEST(MemoryModel, NarrowStateAndAveragesAreMeasuredToo) {
  using P = v1::PrecisionPolicy;
  InstallCountingAllocator();
  at::set_num_threads(1);
  const graph::Graph model = Mlp();
  for (const bool halves : {true, false}) {
    P policy;
    policy.set_preset("bf16");
    policy.set_optimizer_state(P::bf16);
    policy.set_master(halves ? P::bf16_remainder16 : P::none);
    policy.set_stochastic_rounding(!halves);
    const auto resolved = Resolve(model, policy);
    const precision::TrainingSetup setup = {.num_moments = 2, .averages = halves, .checkpoint_segments = {}};
    const auto predicted = static_cast<double>(MemoryOf(model, resolved, setup).At(64).total());
    EXPECT_NEAR(predicted / static_cast<double>(MeasuredPeak(model, resolved, 64, setup)), 1, 0.1) << halves;
  }
}

graph::Graph GptOfManyWords() {
  return models::BuildGpt({.num_layers = 1, .width = 64, .num_heads = 2, .vocabulary = 8192, .sequence_length = 64})
      .value();
}

TEST(MemoryModel, LogitsOfManyClassesBecomeTheirGradient) {
  constexpr int64_t kSamples = 32;
  constexpr auto kLogits = static_cast<double>(kSamples * 64 * 8192);
  InstallCountingAllocator();
  at::set_num_threads(1);
  const graph::Graph model = GptOfManyWords();
  for (const auto& [preset, item_bytes] : {std::pair("fp32", 4.0), {"bf16", 2.0}, {"torch-amp-bf16", 2.0}}) {
    if (!IsMeasurable(preset)) {
      continue;
    }
    const precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}};
    EXPECT_NEAR(PredictedOverMeasured({"gpt_many_words", GptOfManyWords, kSamples, ""}, preset, setup), 1, 0.1);
    const precision::ResolvedPolicy policy = Resolve(model, preset);
    const auto lasting = static_cast<double>(MeasuredPeak(model, policy, 1, setup));
    const double of_step = static_cast<double>(MeasuredPeak(model, policy, kSamples, setup)) - lasting;
    std::cout << preset << ": " << of_step / (kLogits * item_bytes) << " times the logits\n";
    EXPECT_LT(of_step, 1.6 * kLogits * item_bytes) << preset;
  }
}

// The model has the fused loss head that policies for a GPU have. Its CUDA kernels run here on an emulation of CUDA.
TEST(MemoryModel, LogitsOfAFusedLossHeadArePaddedAndBecomeTheirGradient) {
  constexpr int64_t kSamples = 4;
  InstallCountingAllocator();
  at::set_num_threads(1);
  std::string why;
  const kernels::CudaKernels* const kernels = kernels::KernelsUnderTest(&why);
  for (const auto& [vocabulary, padded] : {std::pair(8193, int64_t{8256}), {8192, int64_t{8192}}}) {
    const models::GptConfig config = {
        .num_layers = 1, .width = 16, .num_heads = 2, .vocabulary = vocabulary, .sequence_length = 64};
    const graph::Graph model = models::BuildGpt(config).value();
    for (const auto& [preset, item_bytes] : {std::pair("fp32", 4), {"bf16", 2}}) {
      if (!IsMeasurable(preset)) {
        continue;
      }
      const precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}};
      precision::ResolvedPolicy policy = Resolve(model, preset);
      policy.fuses_linear_cross_entropy = true;
      const precision::MemoryModel memory = MemoryOf(model, policy, setup);
      const auto predicted = static_cast<double>(memory.At(kSamples).total());
      const auto measured = static_cast<double>(MeasuredPeak(model, policy, kSamples, setup, kernels));
      std::cout << vocabulary << " " << preset << ": " << predicted << ", " << predicted / measured
                << " of the measured\n";
      EXPECT_NEAR(predicted / measured, 1, 0.1) << vocabulary << " " << preset;
      const auto of_sample = static_cast<double>(memory.At(65).total() - memory.At(64).total());
      EXPECT_NEAR(of_sample / static_cast<double>(padded * 64 * item_bytes), 1, 0.15) << vocabulary << " " << preset;
    }
  }
}

graph::Graph EfficientNet() {
  v1::EfficientNetSpec spec;
  spec.set_num_classes(10);
  spec.set_image_size(64);
  return models::BuildEfficientNet(spec).value();
}

TEST(MemoryModel, DepthwiseConvolutionsAndSqueezeExcitationAreWithinATenth) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const char* preset : {"fp32", "bf16"}) {
    if (!IsMeasurable(preset)) {
      continue;
    }
    const precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}};
    const double ratio = PredictedOverMeasured({"efficientnet_b0", EfficientNet, 8, ""}, preset, setup);
    EXPECT_GT(ratio, 0.9) << preset;
    // oneDNN pads the channels of depthwise convolutions to the width of the CPU's registers. The estimate counts the
    // padding for AVX-512. The padding for AVX2 is half as wide, so the estimate is higher there.
    EXPECT_LT(ratio, HostHasAvx512() ? 1.1 : 1.3) << preset;
  }
}

graph::Graph Dcgan() {
  v1::DcganSpec spec;
  spec.set_image_size(32);
  spec.set_generator_features(16);
  spec.set_discriminator_features(16);
  return models::BuildDcgan(spec).value();
}

// A step has two losses, each of which uses both networks. With ALL_TOGETHER, the gradients of one loss are kept until
// the gradients of the other loss are computed.
TEST(MemoryModel, TwoNetworksWithAnOptimizerEachAreWithinATenth) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const char* preset : {"fp32", "bf16", "torch-amp-bf16"}) {
    if (!IsMeasurable(preset)) {
      continue;
    }
    for (const auto rule : {v1::LossScale::EACH_ALONE, v1::LossScale::ALL_TOGETHER}) {
      v1::PrecisionPolicy policy;
      policy.set_preset(preset);
      policy.mutable_loss_scale()->mutable_dynamic()->set_initial(1024);
      policy.mutable_loss_scale()->set_optimizer_skip(rule);
      const graph::Graph model = Dcgan();
      const precision::ResolvedPolicy resolved = Resolve(model, policy);
      for (const int64_t batch_size : {2, 32}) {
        for (const int num_micro_batches : {1, 2}) {
          const precision::TrainingSetup setup = {.num_moments = 2,
                                                  .num_micro_batches = num_micro_batches,
                                                  .averages = num_micro_batches == 2,
                                                  .checkpoint_segments = {}};
          const auto predicted = static_cast<double>(MemoryOf(model, resolved, setup).At(batch_size).total());
          const auto measured = static_cast<double>(MeasuredPeak(model, resolved, batch_size, setup));
          std::cout << "dcgan " << preset << " " << v1::LossScale::OptimizerSkip_Name(rule) << " " << batch_size << " x"
                    << num_micro_batches << ": predicted " << predicted / measured << " of the measured\n";
          EXPECT_NEAR(predicted / measured, 1, 0.1) << preset << rule << batch_size << num_micro_batches;
        }
      }
    }
  }
}

template <v1::RnnSpec::Cell cell>
graph::Graph Rnn() {
  v1::RnnSpec spec;
  spec.set_cell(cell);
  spec.set_vocab_size(128);
  spec.set_embedding_size(96);
  spec.set_hidden_size(64);
  spec.set_num_layers(2);
  spec.set_bidirectional(true);
  spec.set_num_classes(10);
  return models::BuildRnn(spec, 48).value();
}

TEST(MemoryModel, RecurrentLayersAreWithinATenth) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const char* preset : {"fp32", "bf16"}) {
    if (!IsMeasurable(preset)) {
      continue;
    }
    const precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}};
    EXPECT_NEAR(PredictedOverMeasured({"gru", Rnn<v1::RnnSpec::GRU>, 16, ""}, preset, setup), 1, 0.1) << preset;
    EXPECT_NEAR(PredictedOverMeasured({"lstm", Rnn<v1::RnnSpec::LSTM>, 16, ""}, preset, setup), 1, 0.1) << preset;
  }
}

// Under AdamW, the fp8 preset stores twelve bytes per parameter between two steps: the fp32 master and two moments.
// bf16 with fp32 masters stores fourteen. FP8 values are not stored, but made from the upper halves of the masters. The
// tables of FP8 scales add a little.
TEST(MemoryModel, WeightsOfFp8LayersAreStoredOnce) {
  InstallCountingAllocator();
  const graph::Graph model = UntiedGpt();
  const auto policy = Resolve(model, "fp8");
  ASSERT_FALSE(policy.fp8_layers.empty());
  int64_t num_elements = 0;
  for (const graph::State& parameter : model.parameters()) {
    int64_t elements = 1;
    for (const graph::Dim& dim : model.type(parameter.value).shape) {
      elements *= dim.factor();
    }
    num_elements += elements;
  }
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  const int64_t before = GetCpuMemory().allocated_bytes;
  auto engine = amp::Engine::Create(model, policy, options).value();
  engine->Step({BatchOf(model, 4)});
  const int64_t lasting = GetCpuMemory().allocated_bytes - before;
  EXPECT_GE(lasting, 12 * num_elements);
  EXPECT_LE(lasting, 12 * num_elements + 4096);
}

// Returns the peak of bytes in a step, without the tensors that persist between steps.
int64_t ActivationPeak(const graph::Graph& model, const std::string& preset, const std::vector<std::string>& segments) {
  constexpr int64_t kBatch = 4;
  const auto policy = Resolve(model, preset);
  const precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = segments};
  const precision::MemoryEstimate lasting = MemoryOf(model, policy, setup).At(kBatch);
  return MeasuredPeak(model, policy, kBatch, setup) - lasting.weights - lasting.working_copies - lasting.optimizer -
         lasting.inputs;
}

TEST(CheckpointSegments, ATwelveLayerGptNeedsAThirdOfTheActivations) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  const graph::Graph gpt =
      models::BuildGpt({.num_layers = 12, .width = 256, .num_heads = 4, .vocabulary = 2048, .sequence_length = 256})
          .value();
  for (const char* preset : {"fp32", "bf16"}) {
    if (!IsMeasurable(preset)) {
      continue;
    }
    const int64_t plain = ActivationPeak(gpt, preset, {});
    const int64_t segmented = ActivationPeak(gpt, preset, {"transformer.h.*"});
    std::cout << "12 layers, " << preset << ": " << plain << " bytes beside the parameters, with segments " << segmented
              << "\n";
    EXPECT_LE(3 * segmented, plain) << preset;
  }
}

// A layer whose memory is tested. `add` adds the layer to a graph.
struct Layer {
  const char* name;
  graph::Shape shape;
  graph::ValueId (*add)(graph::GraphBuilder& b, graph::ValueId x);
};

using Builder = graph::GraphBuilder;
using graph::ValueId;

const std::vector<Layer>& Layers() {
  static auto* const layers = new std::vector<Layer>{
      {"linear", {6, 8}, [](Builder& b, ValueId x) { return b.Linear("l", x, 5); }},
      {"linear of rows", {2, 3, 8}, [](Builder& b, ValueId x) { return b.Linear("l", x, 5); }},
      {"conv2d",
       {2, 3, 6, 6},
       [](Builder& b, ValueId x) { return b.Conv2d("c", x, {.out_channels = 4, .kernel_size = 3}); }},
      {"batch_norm", {2, 3, 4, 4}, [](Builder& b, ValueId x) { return b.BatchNorm2d("n", x); }},
      {"layer_norm", {6, 8}, [](Builder& b, ValueId x) { return b.LayerNorm("n", x); }},
      {"relu", {6, 8}, [](Builder& b, ValueId x) { return b.Relu("r", x); }},
      {"gelu", {6, 8}, [](Builder& b, ValueId x) { return b.Gelu("g", x); }},
      {"gelu of relu", {6, 8}, [](Builder& b, ValueId x) { return b.Gelu("g", b.Relu("r", x)); }},
      {"softmax", {6, 8}, [](Builder& b, ValueId x) { return b.Softmax("s", x, -1); }},
      {"masked attention",
       {2, 3, 4, 8},
       [](Builder& b, ValueId x) {
         const ValueId ones = b.View("m", b.Input("mask", {graph::Dtype::kBool, {2, 4}}), {2, 1, 1, 4});
         return b.Attention("a", x, x, x, /*is_causal=*/false, ones);
       }},
      {"select", {3, 4, 8}, [](Builder& b, ValueId x) { return b.Select("s", b.Gelu("g", x), 1, 0); }},
      {"dropout", {6, 8}, [](Builder& b, ValueId x) { return b.Dropout("d", x, 0.5); }},
      {"stochastic depth", {6, 8}, [](Builder& b, ValueId x) { return b.StochasticDepth("d", x, 0.5); }},
      {"sigmoid", {6, 8}, [](Builder& b, ValueId x) { return b.Sigmoid("s", x); }},
      {"silu", {6, 8}, [](Builder& b, ValueId x) { return b.Silu("s", x); }},
      {"max_pool2d", {2, 3, 4, 4}, [](Builder& b, ValueId x) { return b.MaxPool2d("p", x, {.kernel_size = 2}); }},
      {"max_pool2d with padding",
       {2, 3, 5, 5},
       [](Builder& b, ValueId x) { return b.MaxPool2d("p", x, {.kernel_size = 3, .stride = 2, .padding = 1}); }},
      {"avg_pool2d", {2, 3, 4, 4}, [](Builder& b, ValueId x) { return b.GlobalAvgPool2d("p", x); }},
      {"mul of two reads", {6, 8}, [](Builder& b, ValueId x) { return b.Mul("", b.Relu("r", x), b.Gelu("g", x)); }},
      {"add of two reads", {6, 8}, [](Builder& b, ValueId x) { return b.Add("", b.Relu("r", x), b.Gelu("g", x)); }},
      {"split, transpose, attention",
       {2, 3, 48},
       [](Builder& b, ValueId x) {
         std::vector<ValueId> parts = b.Split("a", b.Gelu("g", x), 3);
         for (ValueId& part : parts) {
           part = b.Transpose("a", b.View("a", part, {2, 3, 4, 4}), 1, 2);
         }
         const ValueId heads = b.Attention("a", parts[0], parts[1], parts[2], true);
         return b.View("a", b.Transpose("a", heads, 1, 2), {2, 3, 16});
       }},
  };
  return *layers;
}

// Returns an executor of a graph with its initial state. All parameters require gradients.
std::unique_ptr<executor::Executor> WithInitialState(const graph::Graph& graph, const executor::OpRegistry& registry,
                                                     bool channels_last) {
  executor::TensorMap state = executor::InitialState(graph, 1);
  for (const graph::State& parameter : graph.parameters()) {
    at::Tensor& tensor = state.at(parameter.name);
    tensor = (channels_last ? amp::InTrainingLayout(tensor) : tensor).requires_grad_(true);
  }
  auto program = executor::Executor::Create(graph, registry).value();
  EXPECT_TRUE(program->Bind(state).ok());
  return program;
}

// Returns the bytes that remain allocated after a forward pass: those of the result and of the tensors that autograd
// saved.
int64_t MeasuredKept(const graph::Graph& graph, const executor::OpRegistry& registry = {}, bool channels_last = false) {
  const auto program = WithInitialState(graph, registry, channels_last);
  std::vector<at::Tensor> inputs;
  for (const graph::ValueId input : graph.inputs()) {
    inputs.push_back(at::ones({graph.type(input).shape[0].factor(), graph.type(input).shape[1].factor()}, at::kBool));
  }
  const int64_t before = GetCpuMemory().allocated_bytes;
  const std::vector<at::Tensor> results = program->Run(inputs);
  return GetCpuMemory().allocated_bytes - before;
}

TEST(EstimateRun, WhatEachLayerKeepsIsExact) {
  InstallCountingAllocator();
  for (const Layer& layer : Layers()) {
    graph::GraphBuilder b("one");
    const ValueId parameter = b.Parameter("x", layer.shape, graph::Initializer::Normal(1));
    // The layer's input is a sum that no other op keeps, so the measured bytes include it only if the layer keeps it.
    b.Output("y", layer.add(b, b.Add("", parameter, parameter)));
    const graph::Graph graph = std::move(b).Build().value();
    EXPECT_EQ(graph::EstimateRun(graph, 1).after_forward.total(), MeasuredKept(graph)) << layer.name;
  }
}

// The fused norm uses the CUDA kernels, which run here on an emulation of CUDA.
TEST(EstimateRun, WhatAFusedBatchNormKeepsIsExact) {
  InstallCountingAllocator();
  std::string why;
  executor::OpRegistry registry;
  amp::RegisterBatchNorm(registry, {.cuda_kernels = kernels::KernelsUnderTest(&why)});
  for (const bool adds : {false, true}) {
    for (const bool relu : {false, true}) {
      graph::GraphBuilder b("one");
      const ValueId parameter = b.Parameter("x", {2, 8, 4, 4}, graph::Initializer::Normal(1));
      const ValueId norm = b.BatchNorm2d("n", b.Add("", parameter, parameter));
      const ValueId sum = adds ? b.Add("", norm, parameter) : norm;
      b.Output("y", relu ? b.Relu("r", sum) : sum);
      const graph::Graph plain = std::move(b).Build().value();
      const graph::Graph fused = graph::WithFusedBatchNorms(plain);
      EXPECT_LT(fused.nodes().size(), plain.nodes().size() + (adds || relu ? 0 : 1));
      const int64_t kept = MeasuredKept(fused, registry, /*channels_last=*/true);
      EXPECT_EQ(graph::EstimateRun(fused, 1).after_forward.total(), kept) << adds << relu;
      const int64_t mask = adds && relu ? 2 * 4 * 4 : 0;  // One byte for the eight channels of a pixel.
      EXPECT_LE(kept, MeasuredKept(plain) + mask) << adds << relu;
    }
  }
}

// Returns a program with a fused batch norm whose result has two readers. `is_kept`: whether the first reader keeps the
// result for its backward pass.
graph::Graph WithTwoReaders(const graph::Shape& shape, bool is_kept) {
  graph::GraphBuilder b("one");
  const ValueId parameter = b.Parameter("x", shape, graph::Initializer::Normal(1));
  const ValueId norm = b.BatchNorm2d("n", b.Add("", parameter, parameter));
  const ValueId y = b.Relu("r", b.Add("", norm, parameter));
  b.Output("y", b.Add("", is_kept ? b.Gelu("g", y) : b.Add("", y, parameter), y));
  graph::Graph fused = graph::WithFusedBatchNorms(std::move(b).Build().value());
  EXPECT_TRUE(std::any_of(fused.nodes().begin(), fused.nodes().end(),
                          [](const graph::Node& node) { return node.outputs.size() == 2; }));
  return fused;
}

TEST(EstimateRun, WhatAFusedBatchNormWithTwoResultsKeepsIsExact) {
  InstallCountingAllocator();
  std::string why;
  executor::OpRegistry registry;
  amp::RegisterBatchNorm(registry, {.cuda_kernels = kernels::KernelsUnderTest(&why)});
  for (const bool is_kept : {false, true}) {
    const graph::Graph fused = WithTwoReaders({2, 12, 4, 4}, is_kept);
    EXPECT_EQ(graph::EstimateRun(fused, 1).after_forward.total(), MeasuredKept(fused, registry, /*channels_last=*/true))
        << is_kept;
  }
}

// The estimate assumes the largest scratch memory that the kernels can need, so it is not exact.
TEST(EstimateRun, ThePeakWithAFusedBatchNormWithTwoResultsIsWithinAHundredth) {
  InstallCountingAllocator();
  std::string why;
  executor::OpRegistry registry;
  amp::RegisterBatchNorm(registry, {.cuda_kernels = kernels::KernelsUnderTest(&why)});
  for (const bool is_kept : {false, true}) {
    const graph::Graph fused = WithTwoReaders({8, 64, 64, 64}, is_kept);
    const auto program = WithInitialState(fused, registry, /*channels_last=*/true);
    const int64_t before = GetCpuMemory().allocated_bytes;
    const std::vector<at::Tensor> results = program->Run({});
    const at::Tensor gradient = at::ones_like(results[0]);
    ResetPeakCpuMemory();
    results[0].backward(gradient);
    const auto peak = static_cast<double>(GetCpuMemory().peak_bytes - before) - static_cast<double>(gradient.nbytes());
    EXPECT_NEAR(static_cast<double>(graph::EstimateRun(fused, 1).peak.total()), peak, 0.01 * peak) << is_kept;
  }
}

bool IsAttention(const graph::Node& node) { return node.op == "aten.scaled_dot_product_attention.default"; }

graph::Graph Changed(const graph::Graph& model, const std::function<void(graph::Node&)>& change) {
  graph::Rewriter rewriter(model);
  for (graph::Node node : model.nodes()) {
    change(node);
    rewriter.Keep(std::move(node));
  }
  return std::move(rewriter).Finish();
}

// Returns the model with dropout added to the attention scores. The result of attention then has another memory layout,
// so views of the result become reshapes, which may copy.
graph::Graph Dropping(const graph::Graph& model) {
  return Changed(model, [](graph::Node& node) {
    if (node.op == "aten.view.default") {
      node.op = "aten.reshape.default";
      std::find_if(node.arguments.begin(), node.arguments.end(), [](const graph::Argument& argument) {
        return argument.name == "size";
      })->name = "shape";
    } else if (IsAttention(node)) {
      node.Set("dropout_p", 0.1);
    }
  });
}

graph::Graph DroppingGpt2() { return Dropping(Gpt2()); }
graph::Graph DroppingBert() { return Dropping(Bert()); }

TEST(MemoryModel, CountsTheScoresOfAttentionThatDropsSome) {
  InstallCountingAllocator();
  at::set_num_threads(1);
  for (const Network& network : {Network{"gpt2_dropping", DroppingGpt2, 8, "transformer.h.*"},
                                 {"bert_dropping", DroppingBert, 8, "bert.encoder.layer.*"}}) {
    for (const char* preset : {"fp32", "bf16", "torch-amp-bf16", "fp16"}) {
      if (!IsMeasurable(preset)) {
        continue;
      }
      for (const bool segments : {false, true}) {
        precision::TrainingSetup setup = {.num_moments = 2, .num_micro_batches = 1, .checkpoint_segments = {}};
        if (segments) {
          setup.checkpoint_segments = {network.blocks};
        }
        EXPECT_NEAR(PredictedOverMeasured(network, preset, setup), 1, 0.1) << network.name << preset << segments;
        EXPECT_NEAR(PredictedOverMeasured(network, preset, setup, SlowBf16Cpu()), 1, 0.1) << network.name << preset;
      }
    }
  }
}

// Returns a graph with an attention of three heads. Its queries, keys and values are parts of one value, as in real
// models. The graph also adds a parameter of the scores' shape, which the test uses as a mask.
graph::Graph AttentionAndMask() {
  Builder b("one");
  const ValueId x = b.Parameter("x", {2, 4, 36}, graph::Initializer::Normal(1));
  const ValueId mask = b.Parameter("m", {2, 3, 4, 4}, graph::Initializer::Normal(1));
  std::vector<ValueId> parts = b.Split("a", b.Add("", x, x), 3);
  for (ValueId& part : parts) {
    part = b.Transpose("a", b.View("a", part, {2, 4, 3, 4}), 1, 2);
  }
  b.Output("y", b.Add("", b.Attention("a", parts[0], parts[1], parts[2], /*is_causal=*/false), mask));
  return std::move(b).Build().value();
}

TEST(EstimateRun, WhatAttentionWithoutAFlashKernelKeepsIsExact) {
  InstallCountingAllocator();
  const graph::Graph plain = AttentionAndMask();
  const graph::Graph dropping = Dropping(plain);
  const graph::Graph masked = Changed(plain, [mask = plain.parameters()[1].value](graph::Node& node) {
    if (IsAttention(node)) node.Set("attn_mask", mask);
  });
  for (const graph::Graph* graph : {&plain, &dropping, &masked}) {
    EXPECT_EQ(graph::EstimateRun(*graph, 1).after_forward.total(), MeasuredKept(*graph));
  }
  const auto kept = [](const graph::Graph& graph, bool on_gpu) {
    return graph::EstimateRun(graph, 1, {.on_gpu = on_gpu}).after_forward.total();
  };
  EXPECT_GT(kept(dropping, false), kept(plain, false));
  EXPECT_EQ(kept(dropping, true), kept(plain, true));
}

}  // namespace
}  // namespace ampd::train
