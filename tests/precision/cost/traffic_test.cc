// Computes the bytes that a training step moves on a GPU, with and without ampd's fused ops. docs/gpu.md has the table
// that this test prints.
#include "graph/cost/traffic.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "graph/fused_batch_norms.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "precision/cost/memory.h"
#include "precision/pass.h"
#include "precision/policy.h"

namespace ampd::precision {
namespace {

// The fused ops that a program has.
struct Fusions {
  bool loss_head = true;    // The loss is fused with the linear layer before it.
  bool layer_norms = true;  // Layer norms are fused with the additions and casts around them.
  bool linears = true;      // Linear layers compute their bias gradients with ampd's kernel.
  bool batch_norms = true;  // Batch norms are fused with the addition and the ReLU behind them.
  bool amaxes = true;       // Layer norms find the largest magnitudes of the FP8 layers that read them.
};

constexpr Fusions kNone = {.loss_head = false, .layer_norms = false, .linears = false, .batch_norms = false};

graph::StepTraffic TrafficOf(const graph::Graph& model, int64_t batch_size, const Fusions& fusions,
                             const std::string& preset = "bf16") {
  v1::Device gpu;
  gpu.set_kind(v1::Device::GPU);
  gpu.set_capability_major(9);
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  const graph::Graph train = TrainedPrograms::Of(model, /*evaluates=*/false)->train;
  auto resolved = ResolvePolicy(policy, train, gpu, OptimizerKind::kAdam);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_TRUE(resolved->fuses_linear_cross_entropy && resolved->fuses_layer_norms && resolved->fuses_linears);
  resolved->fuses_linear_cross_entropy = fusions.loss_head;
  resolved->fuses_layer_norms = fusions.layer_norms;
  resolved->fuses_linears = fusions.linears;
  resolved->norms_find_amaxes = resolved->norms_find_amaxes && fusions.amaxes;
  const auto program = ApplyPrecision(train, *resolved);
  EXPECT_TRUE(program.ok()) << program.status();
  return graph::EstimateTraffic(fusions.batch_norms ? graph::WithFusedBatchNorms(*program) : *program, batch_size,
                                /*has_loss_kernels=*/fusions.loss_head, /*finds_fp8_amaxes=*/preset == "fp8");
}

double Gigabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

// Prints the traffic without fused ops, with each fused op alone, and with all. Returns the traffic with all fused ops
// as a share of that without.
double PrintAndCompare(const std::string& name, const graph::Graph& model, int64_t batch_size) {
  const int64_t none = TrafficOf(model, batch_size, kNone).total();
  const graph::StepTraffic all = TrafficOf(model, batch_size, {});
  std::printf("%s: %.2f GB a step without fused ops\n", name.c_str(), Gigabytes(none));
  const std::vector<std::pair<const char*, bool Fusions::*>> kEach = {{"loss head", &Fusions::loss_head},
                                                                      {"layer norms", &Fusions::layer_norms},
                                                                      {"linear layers", &Fusions::linears},
                                                                      {"batch norms", &Fusions::batch_norms}};
  for (const auto& [what, member] : kEach) {
    Fusions one = kNone;
    one.*member = true;
    const int64_t with_it = TrafficOf(model, batch_size, one).total();
    EXPECT_LE(with_it, none) << what;
    std::printf("  %-13s %6.2f GB less, %4.1f %%\n", what, Gigabytes(none - with_it),
                100.0 * static_cast<double>(none - with_it) / static_cast<double>(none));
  }
  const double left = static_cast<double>(all.total()) / static_cast<double>(none);
  std::printf("  all           %6.2f GB are left: %.2f GB forward, %.2f GB backward; %.3f of them\n",
              Gigabytes(all.total()), Gigabytes(all.forward_bytes), Gigabytes(all.backward_bytes), left);
  return left;
}

// The network is one linear layer from 8 features to 4, with a cross entropy over 2 samples, in fp32.
TEST(Traffic, OfASmallNetwork_IsWhatIsCountedByHand) {
  graph::GraphBuilder builder("net");
  const graph::ValueId features = builder.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 8}});
  builder.Output("logits", builder.Linear("fc", features, 4));
  const graph::Graph net = std::move(builder).Build().value();
  const graph::StepTraffic traffic =
      graph::EstimateTraffic(TrainedPrograms::Of(net, /*evaluates=*/false)->train, /*batch_size=*/2,
                             /*has_loss_kernels=*/true);
  const int64_t x = 64, weight = 128, bias = 16, logits = 32, labels = 16, loss = 4;  // The bytes of each tensor.
  EXPECT_EQ(traffic.forward_bytes, (x + weight + bias + logits) + (logits + labels + loss + /*log_softmax*/ logits));
  EXPECT_EQ(traffic.backward_bytes, (loss + labels + /*log_softmax*/ logits + /*gradient*/ logits) +
                                        (2 * logits + x + weight) + /*gradients*/ (weight + bias));
}

// A norm, an addition and a ReLU, whose result two nodes read.
//
// Forward, the separate ops move eight images. The norm reads its input twice and writes its result; the addition reads
// two images and writes one; the ReLU reads one and writes one. The fused norm reads its input twice and the addend
// once, and writes its result and the mask.
//
// Backward, the separate ops move eleven images. Autograd reads two gradients and writes their sum. The ReLU reads its
// gradient and its result, and writes one image. The norm reads its gradient twice and its input twice, and writes one
// image. The fused norm reads two gradients, its input and the mask, and writes the masked sum of the gradients. Then
// it reads this sum and its input again, and writes one image.
TEST(Traffic, OfAFusedNormWithTwoReaders_IsWhatIsCountedByHand) {
  graph::GraphBuilder b("net");
  const graph::Conv2dOptions conv = {.out_channels = 8, .kernel_size = 1, .bias = false};
  const graph::ValueId x = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 3, 4, 4}});
  const graph::ValueId addend = b.Conv2d("conv2", x, conv);
  const graph::ValueId y = b.Relu("relu", b.Add("", b.BatchNorm2d("bn", b.Conv2d("conv1", x, conv)), addend));
  const graph::ValueId sum = b.Add("", b.Conv2d("conv3", y, conv), y);
  b.Output("logits", b.Linear("fc", b.Flatten("", b.GlobalAvgPool2d("pool", sum)), 4));
  const graph::Graph net = std::move(b).Build().value();
  const graph::Graph train = TrainedPrograms::Of(net, /*evaluates=*/false)->train;
  const auto traffic = [](const graph::Graph& program) {
    return graph::EstimateTraffic(program, /*batch_size=*/2, /*has_loss_kernels=*/false);
  };
  const graph::StepTraffic separate = traffic(train), fused = traffic(graph::WithFusedBatchNorms(train));
  const int64_t image = 2 * 8 * 4 * 4 * 4, mask = 2 * 4 * 4;
  EXPECT_EQ(separate.forward_bytes - fused.forward_bytes, 8 * image - (4 * image + mask));
  EXPECT_EQ(separate.backward_bytes - fused.backward_bytes, 11 * image - (7 * image + mask));
}

graph::Graph Gpt2() {
  v1::Gpt2Spec spec;
  spec.set_dropout(0);
  return models::BuildGpt2(spec, /*sequence_length=*/1024).value();
}

TEST(Traffic, Gpt2HasAtMostFiftyFivePercentOfItWithFusedOps) {
  EXPECT_LE(PrintAndCompare("GPT-2 124M, 8 x 1024 tokens", Gpt2(), 8), 0.55);
}

// In FP8, each layer finds the amax (largest magnitude) of its input with one read and one launch. The first layers of
// attention and of the MLP, in ten of the twelve blocks, get it from the norm before them.
TEST(Traffic, Gpt2InFp8_IsLessByOneReadOfTheNormsThatFp8LayersRead) {
  const graph::StepTraffic separate = TrafficOf(Gpt2(), 8, {.amaxes = false}, "fp8");
  const graph::StepTraffic fused = TrafficOf(Gpt2(), 8, {}, "fp8");
  constexpr int64_t kLayers = 20, kNorm = int64_t{8} * 1024 * 768 * 2, kAmax = 2 * sizeof(float);  // In bytes.
  EXPECT_EQ(separate.forward_bytes - fused.forward_bytes, kLayers * (kNorm - kAmax));
  EXPECT_EQ(separate.backward_bytes, fused.backward_bytes);
  std::printf("GPT-2 124M in FP8: the amaxes that norms find save %.2f GB\n",
              Gigabytes(separate.total() - fused.total()));
}

// The second of the three layers is in FP8. Its input, its weight and its result have 128 columns in bf16.
TEST(Traffic, OfAnFp8LayerThatFindsItsAmaxes_HasOneMoreReadOfEachOperand) {
  graph::GraphBuilder b("mlp");
  graph::ValueId x = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 64}});
  for (const char* const layer : {"layers.0", "layers.1"}) {
    x = b.Linear(layer, x, 128);
  }
  b.Output("logits", b.Linear("layers.2", x, 10));
  const graph::Graph mlp = std::move(b).Build().value();
  const graph::StepTraffic delayed = TrafficOf(mlp, 2, {}, "fp8-delayed"), current = TrafficOf(mlp, 2, {}, "fp8");
  constexpr int64_t kRows = 2 * 128 * 2, kWeight = 128 * 128 * 2;  // In bytes.
  EXPECT_EQ(current.forward_bytes - delayed.forward_bytes, kRows + kWeight);
  EXPECT_EQ(current.backward_bytes - delayed.backward_bytes, kRows);
}

// Most of the remaining traffic comes from convolutions, which fused norms do not reduce.
TEST(Traffic, ResNet50HasAtMostThreeQuartersOfItWithFusedOps) {
  const auto resnet = models::BuildResnet({.widths = {64, 128, 256, 512},
                                           .blocks = {3, 4, 6, 3},
                                           .bottlenecks = true,
                                           .large_images = false,
                                           .in_channels = 3,
                                           .image_size = 32,
                                           .num_classes = 10});
  ASSERT_TRUE(resnet.ok()) << resnet.status();
  EXPECT_LE(PrintAndCompare("ResNet-50, 256 images of 3 x 32 x 32", *resnet, 256), 0.75);
}

}  // namespace
}  // namespace ampd::precision
