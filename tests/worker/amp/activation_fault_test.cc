// Tests that numeric faults of a forward pass in fp16 (emulated here) are reported, and that intended zeros and
// infinities are not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/full.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/builder/builder.h"
#include "graph/fused_batch_norms.h"
#include "models/bert.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/activation_sample.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

using graph::Argument;
using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;
using Kind = ActivationFault::Kind;

constexpr int64_t kFeatures = 32;
constexpr int64_t kSamples = 16;

void Seed(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(seed);
}

// Builds a network of three parts: a body, a part that the test adds with Call(), and a head. The test passes the
// result of its part to Finish().
class Network {
 public:
  Network() : graph_(Body()), x_(*graph_.FindOutput("logits")) {}

  ValueId x() const { return x_; }
  const graph::TensorType& type() const { return graph_.type(x_); }
  graph::Graph& graph() { return graph_; }
  ValueId Call(const std::string& op, std::vector<Argument> arguments, std::optional<graph::Shape> shape = {},
               const std::string& module = "norm") {
    return graph_.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = module}, "value",
                          {Dtype::kFloat32, shape.value_or(type().shape)});
  }
  // Returns the mean of the squares of each sample, (B, 1).
  ValueId MeanSquare() {
    const ValueId squares = Call("aten.mul.Tensor", {{"self", x_}, {"other", x_}});
    const ValueId mean =
        Call("aten.mean.dim", {{"self", squares}, {"dim", std::vector<int64_t>{1}}, {"keepdim", true}}, kRow);
    return Call("aten.add.Tensor", {{"self", mean}, {"other", 1e-6}}, kRow);
  }
  graph::Graph Finish(ValueId middle) && {
    const ValueId weight =
        graph_.AddParameter("head.weight", {Dtype::kFloat32, {kClasses, kFeatures}}, graph::Initializer::Uniform(0.1));
    const ValueId logits = Call("aten.linear.default", {{"input", middle}, {"weight", weight}},
                                graph::Shape{Dim::Batch(), kClasses}, "head");
    graph_.SetOutputs({{"logits", logits}});
    return std::move(graph_);
  }

  const graph::Shape kRow = {Dim::Batch(), 1};

 private:
  static graph::Graph Body() {
    GraphBuilder b("network");
    const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
    b.Output("logits", b.Linear("body", x, kFeatures));
    return *std::move(b).Build();
  }

  graph::Graph graph_;
  const ValueId x_;
};

// x * rsqrt(mean(x * x) + eps)
graph::Graph NormByHand() {
  Network net;
  const ValueId root = net.Call("aten.rsqrt.default", {{"self", net.MeanSquare()}}, net.kRow);
  const ValueId normed = net.Call("aten.mul.Tensor", {{"self", net.x()}, {"other", root}});
  return std::move(net).Finish(normed);
}

// x / sqrt(mean(x * x) + eps)
graph::Graph NormByDivision() {
  Network net;
  const ValueId root = net.Call("aten.sqrt.default", {{"self", net.MeanSquare()}}, net.kRow);
  const ValueId normed = net.Call("aten.div.Tensor", {{"self", net.x()}, {"other", root}});
  return std::move(net).Finish(normed);
}

// x * (mean(x * x) + eps) ** -0.5
graph::Graph NormByPower() {
  Network net;
  const ValueId root = net.Call("aten.pow.Tensor_Scalar", {{"self", net.MeanSquare()}, {"exponent", -0.5}}, net.kRow);
  const ValueId normed = net.Call("aten.mul.Tensor", {{"self", net.x()}, {"other", root}});
  return std::move(net).Finish(normed);
}

// x / (1 + exp(-x)): SiLU.
graph::Graph SiluByHand() {
  Network net;
  const ValueId power = net.Call("aten.exp.default", {{"self", net.Call("aten.neg.default", {{"self", net.x()}})}});
  const ValueId divisor = net.Call("aten.add.Tensor", {{"self", power}, {"other", int64_t{1}}});
  const ValueId result = net.Call("aten.div.Tensor", {{"self", net.x()}, {"other", divisor}});
  return std::move(net).Finish(result);
}

graph::Graph Scaled(double factor) {
  Network net;
  const ValueId scaled = net.Call("aten.mul.Tensor", {{"self", net.x()}, {"other", factor}});
  return std::move(net).Finish(scaled);
}

// A network whose output is a softmax over the squares of each sample's features. If `masked`, a mask of -inf hides
// some of the squares, as the mask of an attention does.
graph::Graph Mixed(bool masked) {
  Network net;
  const graph::Shape scores_shape = {Dim::Batch(), kFeatures};
  ValueId scores = net.Call("aten.mul.Tensor", {{"self", net.x()}, {"other", net.x()}});
  if (masked) {
    const ValueId hidden = net.graph().AddNode({.op = "aten.gt.Scalar",
                                                .arguments = {{"self", net.x()}, {"other", int64_t{0}}},
                                                .outputs = {},
                                                .module_path = "norm"},
                                               "hidden", {Dtype::kBool, net.type().shape});
    scores = net.Call("aten.masked_fill.Scalar",
                      {{"self", scores}, {"mask", hidden}, {"value", -std::numeric_limits<double>::infinity()}});
    scores = net.Call("aten.add.Tensor", {{"self", scores}, {"other", 0.5}});
  }
  const ValueId weights = net.Call("aten.softmax.int", {{"self", scores}, {"dim", int64_t{1}}}, {}, "mix");
  return std::move(net).Finish(weights);
}

Batch BatchOf(double size, int64_t num_large = kSamples) {
  Seed(5);
  Batch batch{at::randn({kSamples, kFeatures}), at::randint(0, kClasses, {kSamples}, at::kLong)};
  batch.images.narrow(0, 0, num_large).mul_(size);
  return batch;
}

StepResult StepOf(const graph::Graph& model, const Batch& batch, const std::string& preset,
                  EngineOptions options = {}) {
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0.1};
  options.seed = 1;
  options.sample_every_steps = 1;
  v1::PrecisionPolicy policy = PresetNamed(preset);
  if (preset == "fp16" || preset == "deepspeed-fp16") {
    policy.mutable_loss_scale()->mutable_dynamic()->set_initial(256);
  }
  return CpuEngine(model, policy, options)->Step({batch});
}

void ExpectDividedOut(const graph::Graph& model, const std::string& zero_op) {
  for (const char* const preset : {"fp16", "torch-amp-fp16", "apex-o3"}) {
    const StepResult result = StepOf(model, BatchOf(3000), preset);
    ASSERT_TRUE(result.sampled_activations) << preset;
    EXPECT_TRUE(std::isfinite(result.loss)) << "nobody sees it";
    ASSERT_TRUE(result.activation_fault.has_value()) << preset << zero_op;
    const ActivationFault& fault = *result.activation_fault;
    EXPECT_EQ(fault.kind, Kind::kDividedOut);
    EXPECT_EQ(fault.module, "norm");
    EXPECT_EQ(fault.op, "aten.mul.Tensor");
    EXPECT_EQ(fault.dtype, "float16");
    EXPECT_GT(fault.share, 0.5);
    EXPECT_EQ(fault.zero_op, zero_op);
    EXPECT_EQ(fault.zero_module, "norm");
    EXPECT_EQ(StepOf(model, BatchOf(1), preset).activation_fault, std::nullopt) << preset;
  }
  EngineOptions segments;
  segments.checkpoint_segments = {"norm"};
  EXPECT_TRUE(StepOf(model, BatchOf(3000), "fp16", segments).activation_fault.has_value()) << "run again or not";
}

TEST(ActivationFault, AnOverflowThatIsDividedByIsNamedWhereItBegins) {
  ExpectDividedOut(NormByHand(), "aten.rsqrt.default");
  ExpectDividedOut(NormByDivision(), "aten.div.Tensor");
  ExpectDividedOut(NormByPower(), "aten.pow.Tensor_Scalar");
}

TEST(ActivationFault, OneSampleOfManyIsEnough) {
  const StepResult result = StepOf(NormByHand(), BatchOf(3000, 1), "fp16");
  ASSERT_TRUE(result.activation_fault.has_value());
  EXPECT_LT(result.activation_fault->share, 0.1);
}

TEST(ActivationFault, WhatDoesNotOverflowHasNone) {
  const auto engine = CpuEngine(NormByHand(), PresetNamed("fp32"), {});
  engine->SampleNextStep();
  const StepResult result = engine->Step({BatchOf(3000)});
  EXPECT_TRUE(result.sampled_activations);
  EXPECT_EQ(result.activation_fault, std::nullopt);
  EXPECT_FALSE(engine->Step({BatchOf(3000)}).sampled_activations);
}

TEST(ActivationFault, AProductBelowTheFormatIsNamed) {
  const StepResult result = StepOf(Scaled(1e-9), BatchOf(1), "fp16");
  ASSERT_TRUE(result.activation_fault.has_value());
  EXPECT_EQ(result.activation_fault->kind, Kind::kVanished);
  EXPECT_EQ(result.activation_fault->module, "norm");
  EXPECT_EQ(result.activation_fault->dtype, "float16");
  EXPECT_EQ(StepOf(Scaled(0.0), BatchOf(1), "fp16").activation_fault, std::nullopt) << "which is asked for";
  EXPECT_EQ(StepOf(Scaled(1e-3), BatchOf(1), "fp16").activation_fault, std::nullopt);
}

TEST(ActivationFault, WhatTheModelMeansIsNone) {
  for (const char* const preset : {"fp16", "apex-o3"}) {
    EXPECT_EQ(StepOf(SiluByHand(), BatchOf(200), preset).activation_fault, std::nullopt)
        << preset << ": an exponential";
    EXPECT_EQ(StepOf(Mixed(true), BatchOf(1), preset).activation_fault, std::nullopt) << preset << ": a mask";
  }
  GraphBuilder b("zeros");  // Has a ReLU that returns only zeros, and after it a layer whose weights are zeros.
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
  x = b.Linear("off", x, kFeatures, graph::Initializer::Constant(-1));
  x = b.Linear("zero", b.Dropout("drop", b.Relu("relu", x), 0.9), kFeatures, graph::Initializer::Constant(0));
  b.Output("logits", b.Linear("head", b.Mul("", x, x), kClasses));
  Batch batch = BatchOf(1);
  batch.images.abs_();
  EXPECT_EQ(StepOf(*std::move(b).Build(), batch, "fp16").activation_fault, std::nullopt);
}

TEST(ActivationFault, ALossThatIsNotFiniteIsFollowedToWhereThatBegins) {
  const StepResult result = StepOf(Mixed(false), BatchOf(3000), "fp16");
  EXPECT_TRUE(std::isnan(result.loss));
  ASSERT_TRUE(result.activation_fault.has_value());
  EXPECT_EQ(result.activation_fault->kind, Kind::kNotFinite);
  EXPECT_EQ(result.activation_fault->op, "aten.mul.Tensor");
  EXPECT_EQ(result.activation_fault->module, "norm");
  Batch broken = BatchOf(1);
  broken.images[3][4] = std::numeric_limits<float>::quiet_NaN();
  const auto engine = CpuEngine(Mixed(true), PresetNamed("bf16"), {});
  EXPECT_TRUE(std::isnan(engine->Step({broken}, 7).loss));
  const std::string before = DigestOf(*engine);
  const auto fault = engine->FindActivationFault({BatchOf(1), broken}, 7);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->op, "input");
  EXPECT_EQ(fault->value, "images");
  EXPECT_EQ(engine->FindActivationFault({BatchOf(1)}, 7), std::nullopt);
  EXPECT_EQ(DigestOf(*engine), before);
}

// The two results of a fused norm have the same numbers, but the name of the second one does not occur in the model.
// The test expects that the fault names the first result.
TEST(ActivationFault, OfTheSecondResultOfAFusedNormHasTheNameOfTheFirst) {
  GraphBuilder b("norm");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 1, 1}});
  const ValueId y = b.Relu("relu", b.Add("", b.BatchNorm2d("bn", x), x));
  b.Output("sum", b.Add("", b.Relu("other", y), y));
  const graph::Graph program = graph::WithFusedBatchNorms(std::move(b).Build().value());
  const std::vector<ValueId>& results = program.nodes()[0].outputs;
  ASSERT_EQ(results.size(), 2u);
  ActivationSampler sampler(program);
  const at::Tensor infinite = at::full({1, 2, 1, 1}, std::numeric_limits<float>::infinity());
  sampler.Observe(results[0], infinite);
  sampler.Observe(results[1], infinite);
  sampler.Observe(program.outputs()[0].value, infinite);
  ASSERT_TRUE(sampler.Fault().has_value());
  EXPECT_EQ(sampler.Fault()->value, program.value(y).name);
  EXPECT_EQ(sampler.Fault()->module, "bn");
}

TEST(ActivationFault, LookingWritesNoRunningStatistics) {
  const auto engine =
      CpuEngine(models::BuildResnet({.widths = {8}, .blocks = {1}, .image_size = 8}).value(), PresetNamed("fp32"), {});
  const std::string before = DigestOf(*engine);
  Seed(3);
  const Batch batch = {at::randn({4, 3, 8, 8}), at::randint(0, 10, {4}, at::kLong)};
  EXPECT_EQ(engine->FindActivationFault({batch}, 7), std::nullopt);
  EXPECT_EQ(DigestOf(*engine), before);
}

// A step whose activations are sampled computes the same bits as a step without sampling.
TEST(ActivationFault, LookingChangesNoBits) {
  const auto digest_of = [](int64_t every_steps) {
    EngineOptions options;
    options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2};
    options.sample_every_steps = every_steps;
    const auto engine = CpuEngine(SmallLenet({4, 4}), PresetNamed("fp16"), options);
    for (uint64_t step = 0; step < 4; ++step) {
      engine->Step({MakeBatch(step, 8), MakeBatch(100 + step, 8)}, step);
    }
    return DigestOf(*engine);
  };
  EXPECT_EQ(digest_of(1), digest_of(0));
}

// No fault is reported in the first steps of healthy models with dropout, masks and norms.
TEST(ActivationFault, TheZooHasNone) {
  v1::Gpt2Spec gpt;
  gpt.set_n_layer(2);
  gpt.set_n_embd(32);
  gpt.set_n_head(2);
  gpt.set_n_positions(16);
  gpt.set_vocab_size(64);
  gpt.set_dropout(0.1);
  v1::BertClassifierSpec bert;
  bert.set_num_hidden_layers(2);
  bert.set_hidden_size(32);
  bert.set_num_attention_heads(2);
  bert.set_intermediate_size(64);
  bert.set_max_position_embeddings(16);
  bert.set_vocab_size(64);
  bert.set_type_vocab_size(2);
  bert.set_num_labels(kClasses);
  bert.set_dropout(0.5);
  Seed(17);
  Batch texts{at::randint(0, 64, {8, 16}, at::kLong), at::randint(0, 64, {8, 16}, at::kLong)};
  Batch classified{texts.images, at::randint(0, kClasses, {8}, at::kLong)};
  classified.others["attention_mask"] = at::rand({8, 16}).lt(0.5);
  classified.others["attention_mask"].select(1, 0).fill_(true);
  classified.others["token_type_ids"] = at::full({8, 16}, 0, at::kLong);
  const Batch pictures{at::rand({8, 3, 8, 8}), at::randint(0, 10, {8}, at::kLong)};
  const std::vector<std::pair<graph::Graph, Batch>> zoo = {
      {models::BuildGpt2(gpt, 16).value(), texts},
      {models::BuildBertClassifier(bert, 16).value(), classified},
      {models::BuildResnet({.widths = {8, 16}, .blocks = {1, 1}, .image_size = 8}).value(), pictures},
      {SmallLenet({4, 8}), MakeBatch(1, 8)}};
  for (const auto& [model, batch] : zoo) {
    for (const char* const preset : {"fp16", "torch-amp-fp16", "apex-o2", "deepspeed-fp16", "keras-mixed-float16"}) {
      EngineOptions options;
      options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
      options.sample_every_steps = 1;
      const auto engine = CpuEngine(model, PresetNamed(preset), options);
      for (uint64_t step = 0; step < 4; ++step) {
        const StepResult result = engine->Step({batch}, step);
        ASSERT_TRUE(result.sampled_activations);
        EXPECT_EQ(result.activation_fault, std::nullopt)
            << model.name() << " " << preset << " " << result.activation_fault->module << " "
            << result.activation_fault->op;
      }
    }
  }
}

}  // namespace
}  // namespace ampd::amp
