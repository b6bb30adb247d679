// Tests the engine with networks that are more than a chain of layers: GPTs, a BERT and recurrent networks with masked
// texts, and residual blocks with BatchNorm.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <string>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/zeros_like.h"
#include "graph/builder/builder.h"
#include "models/bert.h"
#include "models/gpt.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "models/rnn.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/tolerances.h"

namespace ampd::amp {
namespace {

constexpr int kSteps = 30;
constexpr int64_t kVocabulary = 17;
constexpr int64_t kSequence = 8;
constexpr int64_t kNetworkImageSize = 8;
constexpr int64_t kNetworkClasses = 4;

struct Network {
  const char* name;
  graph::Graph (*build)();
  Batch (*batch)();
  const char* blocks;  // Name pattern of the modules that form checkpoint segments.
};

graph::Graph Gpt() {
  return models::BuildGpt({.num_layers = 2,
                           .width = 32,
                           .num_heads = 4,
                           .vocabulary = kVocabulary,
                           .sequence_length = kSequence,
                           .tied_head = false})
      .value();
}

// Texts in which each token determines the next one.
Batch Tokens() {
  const at::Tensor tokens = at::randint(0, kVocabulary, {8, kSequence}, at::kLong);
  return {tokens, tokens.mul(3).add(1).remainder(kVocabulary)};
}

graph::Graph Resnet() {
  return models::BuildResnet({.widths = {8, 16}, .blocks = {1, 1}, .image_size = kNetworkImageSize}).value();
}

// Images of class c have a bright row c.
Batch Images() {
  const at::Tensor labels = at::arange(16, at::kLong).remainder(kNetworkClasses);
  at::Tensor images = at::rand({16, 3, kNetworkImageSize, kNetworkImageSize});
  for (int64_t i = 0; i < labels.size(0); ++i) {
    images[i].select(1, labels[i].item<int64_t>()).add_(1);
  }
  return {images, labels};
}

// A GPT-2 with a tied head, transposed weights and more positions than the sequences have.
graph::Graph Gpt2Of(int num_layers, int width) {
  v1::Gpt2Spec spec;
  spec.set_n_layer(num_layers);
  spec.set_n_embd(width);
  spec.set_n_head(4);
  spec.set_n_positions(kSequence + 3);
  spec.set_vocab_size(kVocabulary);
  spec.set_dropout(0);
  return models::BuildGpt2(spec, kSequence).value();
}

graph::Graph Gpt2() { return Gpt2Of(2, 32); }

graph::Graph Bert() {
  v1::BertClassifierSpec spec;
  spec.set_num_hidden_layers(2);
  spec.set_hidden_size(32);
  spec.set_num_attention_heads(4);
  spec.set_max_position_embeddings(kSequence + 3);
  spec.set_vocab_size(kVocabulary);
  spec.set_num_labels(kNetworkClasses);
  spec.set_dropout(0);
  return models::BuildBertClassifier(spec, kSequence).value();
}

graph::Graph RnnOf(v1::RnnSpec::Cell cell) {
  v1::RnnSpec spec;
  spec.set_cell(cell);
  spec.set_vocab_size(kVocabulary);
  spec.set_embedding_size(32);
  spec.set_hidden_size(32);
  spec.set_num_layers(2);
  spec.set_bidirectional(true);
  spec.set_num_classes(kNetworkClasses);
  return models::BuildRnn(spec, kSequence).value();
}

graph::Graph Lstm() { return RnnOf(v1::RnnSpec::LSTM); }

graph::Graph Gru() { return RnnOf(v1::RnnSpec::GRU); }

// Texts whose second token is the class. The padding after a text holds tokens of other classes.
Batch Texts() {
  constexpr int64_t kTexts = 16;
  const at::Tensor labels = at::arange(kTexts, at::kLong).remainder(kNetworkClasses);
  const at::Tensor lengths = at::randint(3, kSequence + 1, {kTexts, 1}, at::kLong);
  const at::Tensor mask = at::arange(kSequence, at::kLong).unsqueeze(0).lt(lengths);
  at::Tensor tokens = at::randint(2 * kNetworkClasses, kVocabulary, {kTexts, kSequence}, at::kLong);
  tokens.copy_(tokens.where(mask, at::randint(1, kNetworkClasses, {kTexts, kSequence}, at::kLong)));
  tokens.select(1, 1).copy_(labels);
  return {tokens, labels, {{"attention_mask", mask}, {"token_type_ids", at::zeros_like(tokens)}}};
}

constexpr Network kNetworks[] = {{"gpt", Gpt, Tokens, "transformer.h.*"},
                                 {"gpt2", Gpt2, Tokens, "transformer.h.*"},
                                 {"resnet", Resnet, Images, "layer?.?"},
                                 {"bert", Bert, Texts, "bert.encoder.layer.*"},
                                 {"lstm", Lstm, Texts, "rnn"},
                                 {"gru", Gru, Texts, "rnn"}};

std::unique_ptr<Engine> MakeEngine(const Network& network, const std::string& preset,
                                   const std::vector<std::string>& checkpoint_segments) {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 3e-3};
  options.clip_grad_norm = 1.0;
  options.seed = 7;
  options.checkpoint_segments = checkpoint_segments;
  return CpuEngine(network.build(), PresetNamed(preset), options);
}

Batch SeededBatch(const Network& network) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(11);
  return network.batch();
}

// Returns the losses of the first steps of AdamW.
std::vector<double> LossesOf(const Network& network, const std::string& preset) {
  const auto engine = MakeEngine(network, preset, {});
  const Batch batch = SeededBatch(network);
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    const StepResult result = engine->Step({batch});
    EXPECT_FALSE(result.skipped) << network.name << " " << preset << " step " << i;
    losses.push_back(result.loss);
  }
  const EvalSums sums = engine->Evaluate(batch);
  EXPECT_EQ(sums.num_samples, batch.labels.numel());
  EXPECT_GT(sums.num_correct, sums.num_samples / 2) << network.name << " " << preset;
  return losses;
}

TEST(Networks, LearnInEveryPresetAndFollowFp32) {
  at::set_num_threads(1);
  for (const Network& network : kNetworks) {
    const std::vector<double> exact = LossesOf(network, "fp32");
    EXPECT_LT(exact.back(), 0.5 * exact.front()) << network.name;
    for (const char* preset : {"bf16", "fp16"}) {
      const std::vector<double> rounded = LossesOf(network, preset);
      EXPECT_NE(rounded, exact) << preset << " rounds nothing";
      const double tolerance = ToleranceOf(preset).wider;
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_NEAR(rounded[i], exact[i], tolerance * exact.front()) << network.name << " " << preset << " step " << i;
      }
    }
  }
}

// A GPT with three blocks of width 128, so that one block is neither the first nor the last.
graph::Graph WiderGpt() {
  return models::BuildGpt({.num_layers = 3,
                           .width = 128,
                           .num_heads = 4,
                           .vocabulary = kVocabulary,
                           .sequence_length = kSequence,
                           .tied_head = false})
      .value();
}

constexpr Network kWiderGpt = {"wider gpt", WiderGpt, Tokens, "transformer.h.*"};

graph::Graph WiderGpt2() { return Gpt2Of(3, 128); }

constexpr Network kWiderGpt2 = {"wider gpt2", WiderGpt2, Tokens, "transformer.h.*"};

TEST(Networks, AGptInFp8FollowsItselfInBf16) {
  at::set_num_threads(2);
  for (const Network& network : {kWiderGpt, kWiderGpt2}) {
    const std::vector<double> bf16 = LossesOf(network, "bf16");
    for (const char* preset : {"fp8", "fp8-delayed", "fp8-block"}) {
      const std::vector<double> fp8 = LossesOf(network, preset);
      EXPECT_NE(fp8, bf16) << network.name << " " << preset << " rounds nothing";
      for (size_t i = 0; i < bf16.size(); ++i) {
        EXPECT_NEAR(fp8[i], bf16[i], ToleranceOf("fp8").wider * bf16.front())
            << network.name << " " << preset << " step " << i;
      }
    }
  }
}

TEST(Networks, CheckpointSegmentsChangeNoBitOfAGptInFp8) {
  at::set_num_threads(1);
  for (const char* preset : {"fp8", "fp8-delayed", "fp8-block"}) {
    const auto plain = MakeEngine(kWiderGpt, preset, {});
    const auto segmented = MakeEngine(kWiderGpt, preset, {kWiderGpt.blocks});
    const Batch batch = SeededBatch(kWiderGpt);
    for (int i = 0; i < 3; ++i) {
      const StepResult expected = plain->Step({batch, batch});
      const StepResult result = segmented->Step({batch, batch});
      EXPECT_EQ(result.loss, expected.loss) << preset << " step " << i;
      EXPECT_EQ(result.grad_norm, expected.grad_norm) << preset << " step " << i;
    }
    EXPECT_EQ(plain->ExportState().fp8.empty(), false);
    for (const auto& [name, tensor] : plain->ExportState().fp8) {
      EXPECT_TRUE(at::equal(tensor, segmented->ExportState().fp8.at(name))) << preset << " " << name;
    }
  }
}

TEST(Networks, CheckpointSegmentsChangeNoBitOfTheTraining) {
  at::set_num_threads(1);
  for (const Network& network : kNetworks) {
    if (network.build == Lstm) {
      continue;  // A segment's first run is without autograd, and oneDNN's LSTM then rounds differently.
    }
    for (const char* preset : {"fp32", "bf16", "fp16"}) {
      const auto plain = MakeEngine(network, preset, {});
      const auto segmented = MakeEngine(network, preset, {network.blocks});
      const Batch batch = SeededBatch(network);
      for (int i = 0; i < 4; ++i) {
        const StepResult expected = plain->Step({batch, batch});
        const StepResult result = segmented->Step({batch, batch});
        EXPECT_EQ(result.loss, expected.loss) << network.name << " " << preset << " step " << i;
        EXPECT_EQ(result.grad_norm, expected.grad_norm) << network.name << " " << preset << " step " << i;
      }
      const EngineState state = segmented->ExportState();
      for (const auto& [name, tensor] : plain->ExportState().model) {
        EXPECT_TRUE(at::equal(state.model.at(name), tensor)) << network.name << " " << preset << " " << name;
      }
    }
  }
}

// While an object of this class exists, malloc returns memory full of large numbers.
class FilledMemory {
 public:
  FilledMemory() { mallopt(M_PERTURB, 1); }
  ~FilledMemory() { mallopt(M_PERTURB, 0); }
  FilledMemory(const FilledMemory&) = delete;
  FilledMemory& operator=(const FilledMemory&) = delete;
};

// A convolution whose stride is wider than its image, like the last convolutions of a deep network on small images.
graph::Graph NarrowImage() {
  graph::GraphBuilder b("narrow_image");
  graph::ValueId x = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 16, 1, 1}});
  x = b.Conv2d("conv", x, {.out_channels = 16, .kernel_size = 3, .stride = 2, .padding = 1});
  b.Output("logits", b.Linear("head", b.Flatten("", x), kNetworkClasses));
  return std::move(b).Build().value();
}

TEST(Networks, AnImageNarrowerThanTheStrideHasTheGradientThatItHasInFp32) {
  const FilledMemory filled;
  const Batch batch = {at::rand({16, 16, 1, 1}), at::arange(16, at::kLong).remainder(kNetworkClasses)};
  double expected = 0;
  for (const char* preset : {"fp32", "bf16", "torch-amp-bf16"}) {
    EngineOptions options;
    options.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0};
    options.seed = 7;
    const auto engine = CpuEngine(NarrowImage(), PresetNamed(preset), options);
    for (int i = 0; i < kSteps; ++i) {
      const double norm = engine->Step({batch}).grad_norm;
      expected = expected == 0 ? norm : expected;
      EXPECT_NEAR(norm, expected, ToleranceOf("bf16").wider * expected) << preset << " step " << i;
    }
  }
}

}  // namespace
}  // namespace ampd::amp
