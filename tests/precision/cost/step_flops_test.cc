// Compares the floating-point operations of a step with sums made by hand and with published numbers.
#include "precision/cost/step_flops.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "models/rnn.h"
#include "precision/cost/peak_rates.h"
#include "precision/example_device.h"

namespace ampd::precision {
namespace {

v1::Device H100() {
  v1::Device gpu = ExampleGpu();
  gpu.set_name("NVIDIA H100 80GB HBM3");
  return gpu;
}

StepFlops FlopsOf(const graph::Graph& model, const std::string& preset, const v1::Device& device, int64_t batch_size,
                  int num_micro_batches = 1) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  const TrainedPrograms programs = TrainedPrograms::Of(model, /*evaluates=*/false).value();
  const auto resolved = ResolvePolicy(policy, programs.train, device, OptimizerKind::kAdam);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  const auto flops = CountStepFlops(programs, *resolved, device, batch_size, num_micro_batches);
  EXPECT_TRUE(flops.ok()) << flops.status();
  return flops.value_or(StepFlops());
}

// A network of two linear layers: from 8 features to 16, and from 16 to 4.
graph::Graph SmallNetwork() {
  graph::GraphBuilder builder("net");
  const graph::ValueId features = builder.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 8}});
  builder.Output("logits", builder.Linear("fc2", builder.Relu("relu", builder.Linear("fc1", features, 16)), 4));
  return std::move(builder).Build().value();
}

TEST(StepFlops, OfLinearLayers_AreTheForwardProductAndOneForEachGradient) {
  // The first layer has two products, because its input has no gradient. The second layer has three.
  const double expected = 2.0 * 32 * (2 * 8 * 16 + 3 * 16 * 4);
  for (const char* const preset : {"fp32", "bf16", "fp16", "apex-o1"}) {
    EXPECT_EQ(FlopsOf(SmallNetwork(), preset, ExampleCpu(), 32).flops, expected) << preset;
  }
  EXPECT_EQ(FlopsOf(SmallNetwork(), "fp32", ExampleCpu(), 8, /*num_micro_batches=*/4).flops, expected);
}

TEST(StepFlops, OfATransposedConvolution_ComeFromEachPixelOfItsInput) {
  graph::GraphBuilder builder("net");
  const graph::ValueId image = builder.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 3, 8, 8}});
  const graph::ValueId small = builder.Conv2d("a", image, {.out_channels = 5, .kernel_size = 2, .stride = 2});
  const graph::ValueId large = builder.ConvTranspose2d("b", small, {.out_channels = 7, .kernel_size = 4, .stride = 2});
  builder.Output("logits", builder.Linear("fc", builder.Flatten("flat", builder.GlobalAvgPool2d("p", large)), 4));
  const graph::Graph net = std::move(builder).Build().value();
  const double down = 4 * 4 * 5 * (3 * 2 * 2), up = 4 * 4 * 5 * (7 * 4 * 4), head = 7 * 4;
  EXPECT_EQ(FlopsOf(net, "fp32", ExampleCpu(), 10).flops, 2 * 10 * (2 * down + 3 * up + 3 * head));
}

TEST(StepFlops, OfRecurrentLayers_ComeFromTheirGates) {
  v1::RnnSpec spec;
  spec.set_vocab_size(100);
  spec.set_embedding_size(8);
  spec.set_hidden_size(16);
  spec.set_num_layers(2);
  spec.set_bidirectional(true);
  spec.set_num_classes(4);
  for (const auto& [cell, gates] : {std::pair(v1::RnnSpec::LSTM, 4.0), std::pair(v1::RnnSpec::GRU, 3.0)}) {
    spec.set_cell(cell);
    const auto rnn = models::BuildRnn(spec, /*sequence_length=*/20);
    ASSERT_TRUE(rnn.ok()) << rnn.status();
    const double layers = 20 * 2 * gates * 16 * ((8 + 16) + (2 * 16 + 16));
    const double head = 2 * 16 * 4;
    EXPECT_EQ(FlopsOf(*rnn, "fp32", ExampleCpu(), 5).flops, 3 * 2 * 5 * (layers + head));
  }
}

TEST(StepFlops, OfGpt2_AreThoseOfThePalmFormula) {
  v1::Gpt2Spec spec;
  spec.set_dropout(0);
  const auto gpt2 = models::BuildGpt2(spec, /*sequence_length=*/1024);
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  // By the formula of PaLM, each token takes 6 N + 12 L T d floating-point operations: L layers, T positions, d
  // features. N is the number of weights that are factors of matrix products. These are all weights but those of norms
  // and of the position embedding; the token embedding counts once, as the head.
  const double blocks = 12.0 * 12 * 768 * 768;
  const double head = 50257.0 * 768;
  const double expected = 8.0 * 1024 * (6 * (blocks + head) + 12.0 * 12 * 1024 * 768);
  for (const char* const preset : {"fp32", "bf16", "torch-amp-bf16", "fp8"}) {
    EXPECT_NEAR(FlopsOf(*gpt2, preset, H100(), 8).flops / expected, 1, 0.002) << preset;
  }
}

TEST(StepFlops, OfResNet50_AreThreeTimesThePublishedForwardPass) {
  const auto resnet = models::BuildResnet({.widths = {64, 128, 256, 512},
                                           .blocks = {3, 4, 6, 3},
                                           .bottlenecks = true,
                                           .large_images = true,
                                           .in_channels = 3,
                                           .image_size = 224,
                                           .num_classes = 1000});
  ASSERT_TRUE(resnet.ok()) << resnet.status();
  // torchvision states 4.09 G multiplications for the forward pass over 224 x 224 pixels. Each is two FLOPs. A step
  // needs three times as many, minus one product, because the input of the first convolution has no gradient.
  const double first = 2.0 * 64 * 112 * 112 * 3 * 49;
  EXPECT_NEAR(FlopsOf(*resnet, "bf16", H100(), 1).flops / (3 * 2 * 4.09e9 - first), 1, 0.005);
}

TEST(StepFlops, TheTimeAtThePeakRate_IsThatOfEachProductsFormat) {
  const StepFlops bf16 = FlopsOf(SmallNetwork(), "bf16", H100(), 32);
  EXPECT_NEAR(bf16.seconds_at_peak.value(), bf16.flops / 989.4e12, 1e-20);
  EXPECT_NEAR(FlopsOf(SmallNetwork(), "fp32", H100(), 32).seconds_at_peak.value(), bf16.flops / 66.9e12, 1e-18);
  EXPECT_NEAR(FlopsOf(SmallNetwork(), "tf32", H100(), 32).seconds_at_peak.value(), bf16.flops / 494.7e12, 1e-19);
  EXPECT_EQ(FlopsOf(SmallNetwork(), "bf16", ExampleCpu(), 32).seconds_at_peak, std::nullopt);
  v1::Device unknown = H100();
  unknown.set_name("NVIDIA X");
  EXPECT_EQ(FlopsOf(SmallNetwork(), "bf16", unknown, 32).seconds_at_peak, std::nullopt);
}

TEST(StepFlops, AnFp8PolicyNeedsLessTimeAtThePeakThanBf16_AndMoreThanHalfOfIt) {
  v1::Gpt2Spec spec;
  spec.set_dropout(0);
  const auto gpt2 = models::BuildGpt2(spec, /*sequence_length=*/1024);
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  const double bf16 = FlopsOf(*gpt2, "bf16", H100(), 8).seconds_at_peak.value();
  const double fp8 = FlopsOf(*gpt2, "fp8", H100(), 8).seconds_at_peak.value();
  EXPECT_LT(fp8, 0.95 * bf16);  // Only the linear layers of blocks are in FP8, not attention and the head.
  EXPECT_GT(fp8, 0.5 * bf16);
}

TEST(PeakFlopsPerSecond, OfNames_IsThatOfTheLongestKnownOne) {
  v1::Device gpu = ExampleGpu();
  const auto bf16 = [&gpu](const char* name) {
    gpu.set_name(name);
    return PeakFlopsPerSecond(gpu, graph::Dtype::kBFloat16, /*in_tf32=*/false).value_or(0) / 1e12;
  };
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H100 80GB HBM3"), 989.4);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H100 PCIe"), 756);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H200"), 989.4);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA A10G"), 70);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA L40S"), 362);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA L40"), 181);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA L4"), 121);
  EXPECT_DOUBLE_EQ(bf16("Tesla T4"), 0);
  EXPECT_DOUBLE_EQ(bf16("Something new"), 0);
}

}  // namespace
}  // namespace ampd::precision
