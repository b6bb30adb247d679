// Tests that a step of several micro-batches equals a step of the whole batch, however many labels each micro-batch
// has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/zeros.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "graph/heads.h"
#include "graph/passes.h"
#include "models/bert.h"
#include "models/gpt2.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/engine.h"
#include "worker/amp/label_counter.h"

namespace ampd::amp {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::Node;
using graph::ValueId;

constexpr int64_t kVocabulary = 24;
constexpr int64_t kLength = 12;
constexpr int64_t kFeatures = 5;
constexpr int64_t kOutputs = 4;

void Seed(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(seed);
}

graph::Graph SmallGpt() {
  v1::Gpt2Spec gpt;
  gpt.set_n_layer(2);
  gpt.set_n_embd(16);
  gpt.set_n_head(2);
  gpt.set_n_positions(kLength);
  gpt.set_vocab_size(kVocabulary);
  gpt.set_dropout(0);
  return models::BuildGpt2(gpt, kLength).value();
}

graph::Graph SmallBert() {
  v1::BertClassifierSpec bert;
  bert.set_vocab_size(kVocabulary);
  bert.set_hidden_size(16);
  bert.set_num_hidden_layers(2);
  bert.set_num_attention_heads(2);
  bert.set_intermediate_size(24);
  bert.set_max_position_embeddings(kLength);
  bert.set_num_labels(kOutputs);
  bert.set_type_vocab_size(2);
  bert.set_dropout(0);
  return models::BuildBertClassifier(bert, kLength).value();
}

ValueId Call(graph::Graph& graph, std::string op, std::vector<graph::Argument> arguments, graph::TensorType type) {
  return graph.AddNode(Node{.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = ""},
                       "value", std::move(type));
}

// Returns a model with its own loss, written by hand: the mean squared error over a mask, or NaN if the mask is empty.
// If `tells_count`, the model also outputs the number of labels.
graph::Graph MaskedError(bool tells_count = true) {
  GraphBuilder b("masked_error");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
  const ValueId mask = b.Input("mask", {Dtype::kFloat32, {Dim::Batch(), kOutputs}});
  const ValueId head = b.Linear("head", b.Tanh("tanh", b.Linear("body", x, 8)), kOutputs);
  b.Output("loss", b.Mul("", b.Mul("", head, head), mask));
  graph::Graph graph = *std::move(b).Build();
  const ValueId errors = *graph.FindOutput("loss");
  const ValueId sum = Call(graph, "aten.sum.default", {{"self", errors}}, {Dtype::kFloat32, {}});
  const ValueId count = Call(graph, "aten.sum.default", {{"self", mask}}, {Dtype::kFloat32, {}});
  const ValueId loss = Call(graph, "aten.div.Tensor", {{"self", sum}, {"other", count}}, {Dtype::kFloat32, {}});
  graph.SetOutputs({{"loss", loss}});
  if (tells_count) {
    graph.AddOutput(graph::kLabelCount, count);
  }
  return graph;
}

// Returns a model with a cross entropy with class weights, which divides the sum of the losses by the sum of the
// labels' weights.
graph::Graph WeightedClasses() {
  GraphBuilder b("weighted_classes");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
  const ValueId labels = b.Input("labels", {Dtype::kInt64, {Dim::Batch()}});
  b.Output("loss", b.Linear("head", x, kOutputs));
  graph::Graph graph = *std::move(b).Build();
  const ValueId logits = *graph.FindOutput("loss");
  const graph::Initializer around_one = {.kind = graph::Initializer::Kind::kNormal, .value = 1, .bound = 0.2};
  const ValueId weights = graph.AddBuffer("weights", {Dtype::kFloat32, {kOutputs}}, around_one);
  const ValueId loss = Call(graph, "aten.cross_entropy_loss.default",
                            {{"self", logits}, {"target", labels}, {"weight", weights}}, {Dtype::kFloat32, {}});
  const ValueId classes =
      Call(graph, "aten.clamp_min.default", {{"self", labels}, {"min", int64_t{0}}}, {Dtype::kInt64, {Dim::Batch()}});
  const ValueId of_classes =
      Call(graph, "aten.index.Tensor", {{"self", weights}, {"indices", std::vector<std::optional<ValueId>>{classes}}},
           {Dtype::kFloat32, {Dim::Batch()}});
  const ValueId counted = Call(graph, "aten.ne.Scalar", {{"self", labels}, {"other", graph::kIgnoredLabel}},
                               {Dtype::kBool, {Dim::Batch()}});
  const ValueId counts =
      Call(graph, "aten.mul.Tensor", {{"self", of_classes}, {"other", counted}}, {Dtype::kFloat32, {Dim::Batch()}});
  const ValueId count = Call(graph, "aten.sum.default", {{"self", counts}}, {Dtype::kFloat32, {}});
  graph.SetOutputs({{"loss", loss}});
  graph.AddOutput(graph::kLabelCount, count);
  return graph;
}

Batch Part(const Batch& batch, int64_t begin, int64_t end) {
  const auto cut = [&](const at::Tensor& whole) {
    return whole.defined() ? whole.narrow(0, begin, end - begin) : at::Tensor();
  };
  Batch part{cut(batch.images), cut(batch.labels)};
  for (const auto& [name, tensor] : batch.others) {
    part.others[name] = cut(tensor);
  }
  return part;
}

// Splits a batch into parts of these sizes.
std::vector<Batch> Cut(const Batch& batch, const std::vector<int64_t>& sizes) {
  std::vector<Batch> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(Part(batch, begin, begin + size));
    begin += size;
  }
  return parts;
}

struct Trained {
  StepResult result;
  TensorMap model;
};

// Takes one step of gradient descent at a rate of 1, so that the weights show the gradients.
Trained Train(const graph::Graph& model, const std::vector<Batch>& batches, const v1::PrecisionPolicy& policy,
              EngineOptions options = {}) {
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 1};
  options.seed = 3;
  const auto engine = CpuEngine(model, policy, options);
  const StepResult result = engine->Step(batches);
  return {result, engine->ExportState().model};
}

void ExpectAlike(const Trained& whole, const Trained& parts, double tolerance, const std::string& what) {
  EXPECT_FALSE(parts.result.skipped) << what;
  EXPECT_NEAR(parts.result.loss, whole.result.loss, tolerance * std::max(1.0f, std::abs(whole.result.loss))) << what;
  EXPECT_NEAR(parts.result.grad_norm, whole.result.grad_norm, tolerance * std::max(1.0f, whole.result.grad_norm))
      << what;
  for (const auto& [name, tensor] : whole.model) {
    EXPECT_LE(parts.model.at(name).sub(tensor).abs().max().item<double>(),
              tolerance * std::max(1.0, tensor.abs().max().item<double>()))
        << what << ": " << name;
  }
}

void ExpectOneBatch(const graph::Graph& model, const Batch& batch, const std::vector<int64_t>& sizes,
                    const std::string& what, const std::string& preset = "fp32", double tolerance = 1e-6,
                    const EngineOptions& options = {}) {
  const v1::PrecisionPolicy policy = PresetNamed(preset);
  const Trained whole = Train(model, {batch}, policy, options);
  EXPECT_GT(whole.result.grad_norm, 1e-3) << what;
  ExpectAlike(whole, Train(model, Cut(batch, sizes), policy, options), tolerance, what);
}

// Sixteen texts in four equal parts. `labels_left`: for each part, how many labels are not ignored.
Batch Texts(const std::vector<int64_t>& labels_left) {
  Seed(7);
  Batch batch{at::randint(0, kVocabulary, {16, kLength}, at::kLong),
              at::randint(0, kVocabulary, {16, kLength}, at::kLong)};
  for (size_t i = 0; i < labels_left.size(); ++i) {
    batch.labels.narrow(0, static_cast<int64_t>(i) * 4, 4)
        .view(-1)
        .slice(0, labels_left[i])
        .fill_(graph::kIgnoredLabel);
  }
  return batch;
}

TEST(Accumulation, ALanguageModelWeighsPartsByTheirLabels) {
  ExpectOneBatch(SmallGpt(), Texts({48, 48, 48, 48}), {4, 4, 4, 4}, "all labels");
  ExpectOneBatch(SmallGpt(), Texts({3, 48, 17, 29}), {4, 4, 4, 4}, "some left out");
  ExpectOneBatch(SmallGpt(), Texts({0, 48, 1, 0}), {4, 4, 4, 4}, "parts without any");
  ExpectOneBatch(SmallGpt(), Texts({48, 40, 48, 2}), {7, 6, 2, 1}, "parts of several sizes");
}

TEST(Accumulation, AClassifierOfTextsDoesToo) {
  Seed(9);
  Batch batch{at::randint(0, kVocabulary, {16, kLength}, at::kLong), at::randint(0, kOutputs, {16}, at::kLong)};
  batch.others["attention_mask"] = at::rand({16, kLength}).lt(0.8);
  batch.others["attention_mask"].select(1, 0).fill_(true);
  batch.others["token_type_ids"] = at::randint(0, 2, {16, kLength}, at::kLong);
  ExpectOneBatch(SmallBert(), batch, {4, 4, 4, 4}, "all labels");
  batch.labels.narrow(0, 1, 3).fill_(graph::kIgnoredLabel);
  batch.labels.narrow(0, 12, 4).fill_(graph::kIgnoredLabel);
  ExpectOneBatch(SmallBert(), batch, {4, 4, 4, 4}, "some left out");
  ExpectOneBatch(SmallBert(), batch, {6, 6, 3, 1}, "parts of several sizes");
}

TEST(Accumulation, OtherHeadsWeighPartsByTheirNumbers) {
  Seed(11);
  for (const graph::Head head : {graph::Head::kRegression, graph::Head::kMultiLabel}) {
    GraphBuilder b("layer");
    b.Output(std::string(graph::OutputNamesOf(head).front()),
             b.Linear("fc", b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}}), kOutputs));
    const graph::Graph model = std::move(b).Build().value();
    const Batch batch = {at::rand({10, kFeatures}), at::rand({10, kOutputs}).round()};
    ExpectOneBatch(model, batch, {4, 3, 2, 1}, std::string(graph::HeadName(head)));
  }
}

Batch MaskedBatch(const std::vector<int64_t>& set_by_sample) {
  Seed(13);
  const auto size = static_cast<int64_t>(set_by_sample.size());
  Batch batch{at::rand({size, kFeatures}), at::zeros({size}, at::kLong)};
  batch.others["mask"] = at::zeros({size, kOutputs});
  for (size_t i = 0; i < set_by_sample.size(); ++i) {
    batch.others["mask"][static_cast<int64_t>(i)].slice(0, 0, set_by_sample[i]).fill_(1);
  }
  return batch;
}

TEST(Accumulation, AModelsOwnLossCountsAsItSays) {
  ExpectOneBatch(MaskedError(), MaskedBatch({4, 4, 1, 0, 2, 3, 0, 1}), {2, 2, 2, 2}, "uneven masks");
  ExpectOneBatch(MaskedError(), MaskedBatch({4, 4, 0, 0, 2, 3, 0, 0}), {2, 2, 2, 2},
                 "parts of nothing, whose gradients are no numbers");
  Seed(15);
  Batch batch{at::rand({12, kFeatures}), at::randint(0, kOutputs, {12}, at::kLong)};
  batch.labels.narrow(0, 2, 4).fill_(graph::kIgnoredLabel);
  ExpectOneBatch(WeightedClasses(), batch, {3, 3, 3, 3}, "classes with weights");
}

TEST(Accumulation, WhereNothingIsCountedAllPartsWeighTheSame) {
  const Batch batch = Texts({0, 0, 0, 0});
  const Trained whole = Train(SmallGpt(), {batch}, PresetNamed("fp32"));
  const Trained parts = Train(SmallGpt(), Cut(batch, {4, 4, 4, 4}), PresetNamed("fp32"));
  EXPECT_TRUE(std::isnan(whole.result.loss) && std::isnan(parts.result.loss)) << "the mean of nothing";
  EXPECT_EQ(parts.result.grad_norm, 0);
  EXPECT_EQ(whole.result.grad_norm, 0);
}

TEST(Accumulation, HoldsUnderNarrowFormatsAndWithSegmentsThatRunAgain) {
  const Batch batch = Texts({3, 48, 0, 29});
  EngineOptions segments;
  segments.checkpoint_segments = {"transformer.h.*"};
  ExpectOneBatch(SmallGpt(), batch, {4, 4, 4, 4}, "segments", "fp32", 1e-6, segments);
  for (const char* const preset : {"fp16", "bf16", "torch-amp-fp16", "deepspeed-fp16"}) {
    ExpectOneBatch(SmallGpt(), batch, {4, 4, 4, 4}, preset, preset, preset == std::string("bf16") ? 0.05 : 0.01,
                   segments);
  }
}

TEST(Accumulation, AModelWithoutACountWeighsSamples) {
  const Trained whole = Train(MaskedError(false), {MaskedBatch({4, 4, 1, 1})}, PresetNamed("fp32"));
  const Trained parts = Train(MaskedError(false), Cut(MaskedBatch({4, 4, 1, 1}), {2, 2}), PresetNamed("fp32"));
  EXPECT_GT(std::abs(whole.result.loss - parts.result.loss), 1e-3) << "it can't be known";
}

// Returns the losses of the parts, each computed by itself.
std::vector<float> LossesOf(const graph::Graph& model, const std::vector<Batch>& parts,
                            const v1::PrecisionPolicy& policy) {
  std::vector<float> losses;
  for (const Batch& part : parts) {
    losses.push_back(Train(model, {part}, policy).result.loss);
  }
  return losses;
}

TEST(Accumulation, EqualPartsGiveTheBitsOfADivisionByTheirNumber) {
  v1::PrecisionPolicy policy = PresetNamed("fp16");
  policy.mutable_loss_scale()->mutable_fixed()->set_scale(1000);
  for (const int64_t num_parts : {3, 5, 7}) {
    const std::vector<Batch> parts = Cut(MakeBatch(1, 4 * num_parts), std::vector<int64_t>(num_parts, 4));
    float expected = 0;
    for (const float loss : LossesOf(SmallLenet({4, 4}), parts, policy)) {
      expected += loss / static_cast<float>(num_parts);
    }
    EXPECT_EQ(Train(SmallLenet({4, 4}), parts, policy).result.loss, expected) << num_parts;
  }
  // The engine multiplies each part's gradient by the factor scale * share, rounded to fp32. The test expects that this
  // factor equals the fp32 quotient of the scale and the number of parts.
  for (const int64_t num_parts : {3, 7, 11, 48}) {
    for (const float scale : {1.0f, 1000.0f, 0.3f, 65536.0f}) {
      const double share = 5.0 / static_cast<double>(5 * num_parts);
      EXPECT_EQ(static_cast<float>(scale * share), scale / static_cast<float>(num_parts)) << scale << num_parts;
    }
  }
}

TEST(Accumulation, AnEvaluationIsTheMeanOverWhatItsBatchesCount) {
  const auto loss_of = [](const graph::Graph& model, const std::vector<Batch>& batches) {
    const auto engine = CpuEngine(model, PresetNamed("fp32"), {.seed = 3});
    EvalSums sums;
    for (const Batch& batch : batches) {
      sums.Add(engine->Evaluate(batch));
    }
    return sums.loss / sums.num_counted;
  };
  const Batch masked = MaskedBatch({4, 4, 1, 0, 2, 3, 0, 0});
  EXPECT_NEAR(loss_of(MaskedError(), Cut(masked, {3, 3, 2})), loss_of(MaskedError(), {masked}), 1e-6);
  const Batch texts = Texts({0, 48, 1, 29});
  EXPECT_NEAR(loss_of(SmallGpt(), Cut(texts, {4, 7, 5})), Train(SmallGpt(), {texts}, PresetNamed("fp32")).result.loss,
              1e-5);
}

TEST(Accumulation, ACountThatIsNoneIsRefused) {
  Batch batch = MaskedBatch({4, 4, 1, 1});
  const auto engine = CpuEngine(MaskedError(), PresetNamed("fp32"), {});
  for (const float wrong : {-9.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    batch.others["mask"][0][0] = wrong;
    EXPECT_THROW(engine->Step(Cut(batch, {2, 2})), LabelCountError) << wrong;
  }
}

// A label count must not depend on weights, because it would then change as they are trained.
TEST(LabelCountProgram, TakesNothingThatTrainingChanges) {
  EXPECT_FALSE(graph::LabelCountProgram(MaskedError(false)).value().has_value());
  const graph::Graph program = graph::LabelCountProgram(MaskedError()).value().value();
  EXPECT_TRUE(program.Check().ok()) << program.Check();
  EXPECT_TRUE(program.parameters().empty());
  EXPECT_EQ(program.nodes().size(), 1u);
  EXPECT_EQ(graph::LabelCountProgram(WeightedClasses()).value()->buffers().size(), 1u);
  graph::Graph model = MaskedError(false);
  const ValueId loss = *model.FindOutput("loss");
  model.AddOutput(graph::kLabelCount, loss);
  const absl::Status status = graph::LabelCountProgram(model).status();
  EXPECT_EQ(ReasonOf(status), "BAD_LABEL_COUNT");
  EXPECT_NE(status.message().find("depends on the parameter "), std::string::npos) << status;
  model.SetOutputs({{"loss", loss}, {graph::kLabelCount, model.inputs()[0]}});
  EXPECT_NE(graph::LabelCountProgram(model).status().message().find("is no number of labels"), std::string::npos);
}

}  // namespace
}  // namespace ampd::amp
