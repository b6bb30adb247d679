// Compares the models of ampd's model library (the zoo) with the same torch.nn.Modules in PyTorch: names, initial
// weights, loss, gradients, 50 training steps, evaluation.

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "tests/parity/oracle.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"

namespace ampd::parity {
namespace {

using executor::Executor;
using executor::TensorMap;
using graph::Dim;
using graph::Dtype;
using graph::Graph;

// The seed and the number of steps are those of oracle_models.py.
constexpr uint64_t kSeed = 20;
constexpr int64_t kSteps = 50;
constexpr double kRelativeTolerance = 1e-5;

Graph Lenet() { return models::BuildLenet(v1::LenetSpec()).value(); }

Graph OddLenet() {
  v1::LenetSpec spec;
  spec.set_in_channels(3);
  spec.set_image_size(21);
  for (int width : {5, 7, 6}) {
    spec.add_widths(width);
  }
  spec.set_hidden(9);
  spec.set_num_classes(4);
  return models::BuildLenet(spec).value();
}

Graph Mlp() { return models::BuildMlp(v1::MlpSpec()).value(); }

Graph DeepMlp() {
  v1::MlpSpec spec;
  spec.set_in_features(20);
  for (int width : {16, 12, 8}) {
    spec.add_hidden(width);
  }
  spec.set_num_classes(5);
  return models::BuildMlp(spec).value();
}

Graph Zoo() {
  graph::GraphBuilder b("zoo");
  graph::ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 8, 8}});
  x = b.Conv2d("conv", x, {.out_channels = 4, .kernel_size = 3, .stride = 2, .padding = 1, .groups = 2, .bias = false});
  x = b.Linear("fc", b.Flatten("", b.BatchNorm2d("bn", x)), 6);
  x = b.Gelu("", b.LayerNorm("norm", x));
  b.Output("logits", b.Linear("head", b.Add("", x, b.Mul("", x, b.Softmax("", x, -1))), 3));
  return std::move(b).Build().value();
}

Graph Resnet() {
  return models::BuildResnet({.widths = {4, 6}, .blocks = {2, 2}, .image_size = 8, .num_classes = 4}).value();
}

Graph LargeResnet() {
  return models::BuildResnet({.widths = {4, 6},
                              .blocks = {1, 2},
                              .bottlenecks = true,
                              .large_images = true,
                              .image_size = 37,
                              .num_classes = 4})
      .value();
}

Graph Gpt() {
  return models::BuildGpt(
             {.num_layers = 2, .width = 16, .num_heads = 2, .vocabulary = 11, .sequence_length = 8, .tied_head = false})
      .value();
}

Graph TiedGpt() {
  return models::BuildGpt({.num_layers = 1, .width = 12, .num_heads = 3, .vocabulary = 7, .sequence_length = 5})
      .value();
}

struct Case {
  std::string name;
  Graph (*build)();
};

void PrintTo(const Case& model, std::ostream* out) { *out << model.name; }

double RelativeError(const at::Tensor& ours, const at::Tensor& theirs) {
  return ours.sub(theirs).norm().item<double>() / theirs.norm().item<double>();
}

// Returns the tensors that PyTorch computed for a model. They are computed once per model.
const absl::StatusOr<TensorMap>& OracleOf(const std::string& model) {
  static auto* const known = new std::map<std::string, absl::StatusOr<TensorMap>>();
  const auto it = known->find(model);
  return it != known->end() ? it->second : known->emplace(model, RunOracle("oracle_models", {model})).first->second;
}

class ModelParity : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const auto& tensors = OracleOf(GetParam().name);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    oracle_ = *tensors;
    state_ = executor::InitialState(model_, kSeed);
    for (const graph::State& parameter : model_.parameters()) {
      state_[parameter.name].requires_grad_(true);
    }
  }

  at::Tensor images(int64_t step) const { return oracle_.at("images")[step]; }
  at::Tensor labels(int64_t step) const { return oracle_.at("labels")[step]; }

  std::unique_ptr<Executor> Bound(const Graph& graph) const {
    auto executor = Executor::Create(graph, executor::OpRegistry()).value();
    EXPECT_TRUE(executor->Bind(state_).ok());
    return executor;
  }

  // Runs one step of plain SGD and returns its loss.
  double Step(Executor& program, int64_t step) {
    const at::Tensor loss = program.Run({images(step), labels(step)})[0];
    loss.backward();
    const at::NoGradGuard no_grad;
    for (const graph::State& parameter : model_.parameters()) {
      at::Tensor& tensor = state_.at(parameter.name);
      if (step == 0) {
        first_gradients_[parameter.name] = tensor.grad().clone();
      }
      tensor.sub_(tensor.grad(), oracle_.at("learning_rate").item());
      tensor.mutable_grad().reset();
    }
    return loss.item<double>();
  }

  const Graph model_ = GetParam().build();
  std::map<std::string, at::Tensor> oracle_;
  TensorMap state_;
  TensorMap first_gradients_;
};

TEST_P(ModelParity, StateHasPythonsNamesAndContentsForOneSeed) {
  for (const auto& [name, tensor] : oracle_) {
    if (!name.starts_with("state/") || (name == "state/lm_head.weight" && GetParam().name == "gpt-tied")) {
      continue;
    }
    const auto ours = state_.find(name.substr(6));
    ASSERT_NE(ours, state_.end()) << name;
    EXPECT_TRUE(at::equal(ours->second, tensor)) << name;
  }
  for (const auto& [name, tensor] : state_) {
    EXPECT_TRUE(oracle_.contains("state/" + name)) << name;
  }
}

TEST_P(ModelParity, LossOfEveryStepAndFirstGradientsAgree) {
  const auto program = Bound(graph::WithLossHead(model_).value());
  const at::Tensor losses = oracle_.at("losses");
  for (int64_t step = 0; step < kSteps; ++step) {
    const double expected = losses[step].item<double>();
    EXPECT_NEAR(Step(*program, step), expected, kRelativeTolerance * expected) << "step " << step;
  }
  for (const auto& [name, gradient] : first_gradients_) {
    EXPECT_LE(RelativeError(gradient, oracle_.at("grad/" + name)), kRelativeTolerance) << name;
  }
  EXPECT_LT(losses[kSteps - 1].item<double>(), 0.9 * losses[0].item<double>()) << "nothing was learned";
}

TEST_P(ModelParity, EvaluationOfTheTrainedModelAgrees) {
  const auto program = Bound(graph::WithLossHead(model_).value());
  for (int64_t step = 0; step < kSteps; ++step) {
    Step(*program, step);
  }
  const at::NoGradGuard no_grad;
  const auto outputs = Bound(graph::WithEvalHead(graph::EvalProgram(model_)).value())->Run({images(0), labels(0)});
  const double expected = oracle_.at("eval/loss_sum").item<double>();
  EXPECT_NEAR(outputs[0].item<double>(), expected, kRelativeTolerance * expected);
  EXPECT_EQ(outputs[1].item<int64_t>(), oracle_.at("eval/num_correct").item<int64_t>());
}

INSTANTIATE_TEST_SUITE_P(Zoo, ModelParity,
                         testing::Values(Case{"lenet", Lenet}, Case{"lenet-odd", OddLenet}, Case{"mlp", Mlp},
                                         Case{"mlp-deep", DeepMlp}, Case{"zoo", Zoo}, Case{"resnet", Resnet},
                                         Case{"resnet-bottlenecks", LargeResnet}, Case{"gpt", Gpt},
                                         Case{"gpt-tied", TiedGpt}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ampd::parity
