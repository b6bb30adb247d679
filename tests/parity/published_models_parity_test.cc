// Compares the models of ampd's model library (the zoo) with those of transformers, torchvision and torch.nn: names and
// shapes of a checkpoint's tensors, initial weights, logits, gradients and training, in training mode and in evaluation
// mode.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/bert.h"
#include "models/efficientnet.h"
#include "models/gpt2.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/rnn.h"
#include "precision/policy.h"
#include "tests/parity/everyday_models.h"
#include "tests/parity/oracle.h"
#include "worker/amp/engine.h"
#include "worker/amp/step/format.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"

namespace ampd::parity {
namespace {

using executor::TensorMap;

constexpr double kForwardTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;
constexpr double kTrainingTolerance = 1e-4;

// Each function below returns a model with the same sizes as in oracle_published.py.

graph::Graph Lenet() {
  v1::LenetSpec spec;
  spec.set_image_size(12);
  for (const int width : {72, 80}) {
    spec.add_widths(width);
  }
  spec.set_hidden(96);
  spec.set_num_classes(80);
  return models::BuildLenet(spec).value();
}

graph::Graph Mlp() {
  v1::MlpSpec spec;
  spec.set_in_features(144);
  for (const int width : {96, 72}) {
    spec.add_hidden(width);
  }
  spec.set_num_classes(80);
  return models::BuildMlp(spec).value();
}

graph::Graph SmallGpt2() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(3);
  spec.set_n_embd(48);
  spec.set_n_head(4);
  spec.set_n_positions(16);
  spec.set_vocab_size(61);
  spec.set_dropout(0);
  return models::BuildGpt2(spec, /*sequence_length=*/10).value();
}

graph::Graph EfficientNet() {
  v1::EfficientNetSpec spec;
  spec.set_num_classes(7);
  spec.set_image_size(64);
  spec.set_dropout(0);
  spec.set_stochastic_depth_prob(0);
  return models::BuildEfficientNet(spec).value();
}

graph::Graph Resnet(int depth, v1::ResnetSpec::Stem stem, int image_size) {
  v1::ResnetSpec spec;
  spec.set_depth(depth);
  spec.set_stem(stem);
  spec.set_image_size(image_size);
  spec.set_num_classes(80);
  return models::BuildResnet(spec).value();
}

graph::Graph Resnet18Cifar() { return Resnet(18, v1::ResnetSpec::CIFAR, 16); }
graph::Graph Resnet18() { return Resnet(18, v1::ResnetSpec::IMAGENET, 40); }
graph::Graph Resnet34() { return Resnet(34, v1::ResnetSpec::IMAGENET, 40); }
graph::Graph Resnet50() { return Resnet(50, v1::ResnetSpec::IMAGENET, 40); }

graph::Graph SmallBert() {
  v1::BertClassifierSpec spec;
  spec.set_num_hidden_layers(3);
  spec.set_hidden_size(48);
  spec.set_num_attention_heads(4);
  spec.set_intermediate_size(96);
  spec.set_max_position_embeddings(16);
  spec.set_vocab_size(61);
  spec.set_num_labels(5);
  spec.set_dropout(0);
  return models::BuildBertClassifier(spec, /*sequence_length=*/10).value();
}

graph::Graph SmallRnn(v1::RnnSpec::Cell cell, bool bidirectional) {
  v1::RnnSpec spec;
  spec.set_cell(cell);
  spec.set_vocab_size(61);
  spec.set_embedding_size(32);
  spec.set_hidden_size(24);
  spec.set_num_layers(2);
  spec.set_bidirectional(bidirectional);
  spec.set_num_classes(80);
  return models::BuildRnn(spec, /*sequence_length=*/10).value();
}

graph::Graph Lstm() { return SmallRnn(v1::RnnSpec::LSTM, /*bidirectional=*/false); }
graph::Graph BidirectionalLstm() { return SmallRnn(v1::RnnSpec::LSTM, /*bidirectional=*/true); }
graph::Graph Gru() { return SmallRnn(v1::RnnSpec::GRU, /*bidirectional=*/false); }
graph::Graph BidirectionalGru() { return SmallRnn(v1::RnnSpec::GRU, /*bidirectional=*/true); }

double RelativeError(const at::Tensor& ours, const at::Tensor& theirs) {
  return ours.sub(theirs).norm().item<double>() / theirs.norm().item<double>();
}

// Returns the oracle's tensors whose names start with `prefix`. The names in the result are without the prefix.
TensorMap Named(const std::map<std::string, at::Tensor>& oracle, const std::string& prefix) {
  TensorMap found;
  for (const auto& [name, tensor] : oracle) {
    if (absl::StartsWith(name, prefix)) {
      found[name.substr(prefix.size())] = tensor;
    }
  }
  return found;
}

template <typename Map>
std::set<std::string> KeysOf(const Map& map) {
  std::set<std::string> keys;
  for (const auto& [key, value] : map) {
    keys.insert(key);
  }
  return keys;
}

struct Case {
  std::string name;
  graph::Graph (*build)();
};

void PrintTo(const Case& model, std::ostream* out) { *out << model.name; }

// Returns the tensors that Python computed for a model. They are computed once per model.
const absl::StatusOr<TensorMap>& OracleOf(const std::string& model) {
  static auto* const known = new std::map<std::string, absl::StatusOr<TensorMap>>();
  const auto it = known->find(model);
  return it != known->end() ? it->second : known->emplace(model, RunOracle("oracle_published", {model})).first->second;
}

class PublishedModelParity : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const auto& oracle = OracleOf(GetParam().name);
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    oracle_ = *oracle;
  }

  // Returns the batch of a step for one of the model's inputs. A mask is converted to booleans, because the oracle
  // stores it as numbers.
  at::Tensor InputOf(graph::ValueId input, int64_t step) const {
    const at::Tensor given = oracle_.at("input/" + model_.value(input).name)[step].contiguous();
    return model_.type(input).dtype == graph::Dtype::kBool ? given.to(at::kBool) : given;
  }

  amp::Batch BatchOf(int64_t step) const {
    amp::Batch batch = {InputOf(model_.inputs().front(), step), oracle_.at("labels")[step].contiguous()};
    for (const graph::ValueId input : model_.inputs()) {
      batch.others[model_.value(input).name] = InputOf(input, step);
    }
    return batch;
  }

  std::unique_ptr<executor::Executor> Bound(const graph::Graph& graph, const TensorMap& state) const {
    auto program = executor::Executor::Create(graph, executor::OpRegistry()).value();
    EXPECT_TRUE(program->Bind(state).ok());
    return program;
  }

  at::Tensor FirstOutput(const graph::Graph& program, const TensorMap& state) const {
    return Bound(program, state)->Run(amp::InputsOf(program, BatchOf(0), at::Device(at::kCPU)))[0];
  }

  // Returns copies of Python's tensors as leaves that require gradients, in the engine's memory layout. They are copies
  // because a run changes running statistics.
  TensorMap Leaves(const std::string& prefix) const {
    TensorMap state = Named(oracle_, prefix);
    for (auto& [name, tensor] : state) {
      tensor = amp::InTrainingLayout(tensor.clone());
    }
    for (const graph::State& parameter : model_.parameters()) {
      state.at(parameter.name).requires_grad_(true);
    }
    return state;
  }

  // Runs `program`, the model in training or evaluation mode, and compares logits and gradients with Python's in the
  // same mode. In oracle_, the names of the initial tensors begin with `start`, and those of Python's results with
  // `mode`.
  void ExpectLogitsAndGradients(const graph::Graph& program, const std::string& start, const std::string& mode) const;
  void ExpectTrainingFollows(const graph::Graph& program, const std::string& start, const std::string& mode) const;

  const graph::Graph model_ = GetParam().build();
  std::map<std::string, at::Tensor> oracle_;
};

TEST_P(PublishedModelParity, TheTensorsAreThoseOfACheckpoint) {
  const TensorMap theirs = Named(oracle_, "state/");
  const TensorMap ours = executor::InitialState(model_, /*seed=*/3);
  EXPECT_EQ(KeysOf(ours), KeysOf(theirs));
  for (const auto& [name, tensor] : theirs) {
    EXPECT_EQ(ours.at(name).sizes(), tensor.sizes()) << name;
  }
}

TEST_P(PublishedModelParity, FirstWeightsAreDrawnAlike) {
  const TensorMap ours = executor::InitialState(model_, /*seed=*/3);
  for (const auto& [name, tensor] : Named(oracle_, "state/")) {
    const double deviation = tensor.numel() > 1 ? tensor.std().item<double>() : 0;
    const at::Tensor& own = ours.at(name);
    if (deviation == 0) {
      EXPECT_TRUE(own.equal(tensor)) << name;
      continue;
    }
    const double own_deviation = own.std().item<double>();
    const double tolerance = 5 / std::sqrt(tensor.numel());  // Five standard errors.
    EXPECT_LT(tolerance, 0.6) << name << " has too few numbers to tell";
    EXPECT_NEAR(own_deviation / deviation, 1, tolerance) << name;
    EXPECT_NEAR(own.mean().item<double>() / deviation, 0, tolerance) << name;
    // Both distributions must be of the same kind: the largest value of a uniform distribution is 1.73 standard
    // deviations, and a normal distribution has larger ones.
    EXPECT_EQ(own.abs().max().item<double>() < 2 * own_deviation, tensor.abs().max().item<double>() < 2 * deviation)
        << name << " is of another distribution";
  }
}

void PublishedModelParity::ExpectLogitsAndGradients(const graph::Graph& program, const std::string& start,
                                                    const std::string& mode) const {
  const at::Tensor logits = FirstOutput(program, Leaves(start));
  EXPECT_EQ(logits.sizes(), oracle_.at(mode + "logits").sizes());
  EXPECT_LE(RelativeError(logits, oracle_.at(mode + "logits")), kForwardTolerance);
  const TensorMap leaves = Leaves(start);
  FirstOutput(graph::WithLossHead(program).value(), leaves).backward();
  for (const graph::State& parameter : model_.parameters()) {
    const at::Tensor& theirs = oracle_.at(absl::StrCat(mode, "grad/", parameter.name));
    EXPECT_LE(RelativeError(leaves.at(parameter.name).grad(), theirs), kGradientTolerance) << parameter.name;
  }
}

TEST_P(PublishedModelParity, LogitsAndGradientsAgree) { ExpectLogitsAndGradients(model_, "start/", ""); }

TEST_P(PublishedModelParity, LogitsAndGradientsAgreeInEvaluationMode) {
  ExpectLogitsAndGradients(graph::EvalProgram(model_), "eval/start/", "eval/");
}

void PublishedModelParity::ExpectTrainingFollows(const graph::Graph& program, const std::string& start,
                                                 const std::string& mode) const {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  v1::PrecisionPolicy policy;
  policy.set_preset("fp32");
  const auto resolved =
      precision::ResolvePolicy(policy, graph::WithLossHead(program).value(), cpu, precision::OptimizerKind::kAdam);
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW,
                       .learning_rate = oracle_.at("learning_rate").item<double>(),
                       .weight_decay = 0x1p-6,
                       .epsilon = oracle_.at("epsilon").item<double>()};
  const auto engine = amp::Engine::Create(program, *resolved, options).value();
  amp::EngineState state = engine->ExportState();
  state.model = Leaves(start);
  ASSERT_TRUE(engine->ImportState(state).ok());
  const at::Tensor losses = oracle_.at(mode + "losses");
  for (int64_t step = 0; step < losses.size(0); ++step) {
    const double expected = losses[step].item<double>();
    EXPECT_NEAR(engine->Step({BatchOf(step)}).loss, expected, kTrainingTolerance * expected) << "step " << step;
  }
  const TensorMap before = Named(oracle_, start);
  const TensorMap after = Named(oracle_, mode + "after/");
  const TensorMap ours = engine->ExportState().model;
  EXPECT_EQ(KeysOf(ours), KeysOf(after));
  std::set<std::string> parameters;
  for (const graph::State& parameter : program.parameters()) {
    parameters.insert(parameter.name);
  }
  for (const auto& [name, theirs] : after) {
    if (!mode.empty() && !parameters.contains(name)) {  // Evaluation mode must not change buffers.
      EXPECT_TRUE(ours.at(name).equal(before.at(name))) << name << " changed";
    } else if (absl::EndsWith(name, "num_batches_tracked")) {
      EXPECT_TRUE(ours.at(name).equal(theirs)) << name;
      EXPECT_EQ(theirs.item<int64_t>(), losses.size(0)) << name;
    } else {
      EXPECT_LE(RelativeError(ours.at(name), theirs), kTrainingTolerance) << name;
      EXPECT_GT(RelativeError(theirs, before.at(name)), kTrainingTolerance) << name << " was not trained";
    }
  }
}

TEST_P(PublishedModelParity, TrainingFollows) { ExpectTrainingFollows(model_, "start/", ""); }

// The test trains a module that is in evaluation mode. The norms of such a module are frozen: they use their running
// statistics and do not change them.
TEST_P(PublishedModelParity, TrainingInEvaluationModeFollows) {
  ExpectTrainingFollows(graph::EvalProgram(model_), "eval/start/", "eval/");
}

std::vector<Case> Everyday() {
  std::vector<Case> all = {{"lenet", Lenet},
                           {"mlp", Mlp},
                           {"gpt2", SmallGpt2},
                           {"resnet18_cifar", Resnet18Cifar},
                           {"resnet18", Resnet18},
                           {"resnet34", Resnet34},
                           {"resnet50", Resnet50},
                           {"efficientnet_b0", EfficientNet},
                           {"bert_classifier", SmallBert},
                           {"lstm", Lstm},
                           {"bidirectional_lstm", BidirectionalLstm},
                           {"gru", Gru},
                           {"bidirectional_gru", BidirectionalGru}};
  std::erase_if(all, [](const Case& one) {
    return !IsCompared(one.name, {"resnet18", "resnet34", "resnet50", "lstm", "bidirectional_gru"});
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Zoo, PublishedModelParity, testing::ValuesIn(Everyday()),
                         [](const auto& info) { return info.param.name; });

TEST(ResnetParity, TheTensorsAreTorchvisions) {
  const auto oracle = RunOracle("oracle_resnet", {});
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  for (const int depth : {18, 34, 50}) {
    v1::ResnetSpec spec;
    spec.set_depth(depth);
    const TensorMap ours = executor::InitialState(models::BuildResnet(spec).value(), /*seed=*/3);
    std::map<std::string, std::vector<int64_t>> theirs;
    for (const auto& [name, shape] : Named(*oracle, absl::StrCat("resnet", depth, "/"))) {
      theirs[name] = {shape.data_ptr<int64_t>(), shape.data_ptr<int64_t>() + shape.numel()};
    }
    EXPECT_EQ(KeysOf(ours), KeysOf(theirs)) << depth;
    for (const auto& [name, tensor] : ours) {
      EXPECT_EQ(tensor.sizes().vec(), theirs[name]) << name;
    }
  }
}

}  // namespace
}  // namespace ampd::parity
