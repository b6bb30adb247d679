// The programs of a model with its head: WithLossHead, WithEvalHead and WithPredictions of passes.h.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/heads.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

// at::Reduction::Sum; the ops' default is the mean.
constexpr int64_t kReductionSum = 2;

absl::StatusOr<Head> NeededHeadOf(const Graph& model) {
  const std::optional<Head> head = HeadOf(model);
  return head.has_value()
             ? absl::StatusOr<Head>(*head)
             : Error(absl::StatusCode::kInvalidArgument, "NO_HEAD",
                     absl::StrCat("model ", model.name(),
                                  " has none of the outputs \"logits\" of shape (B, classes) or (B, T, classes), "
                                  "\"predictions\" (B, ...), \"label_logits\" (B, classes) and \"loss\""));
}

ValueId Call(Graph& graph, std::string op, std::vector<Argument> arguments, std::string_view name, TensorType type) {
  return graph.AddNode({.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}}, name,
                       std::move(type));
}

// Flattens logits (B, classes) or (B, T, classes) to two dimensions.
ValueId Flat(Graph& graph, ValueId logits) {
  const Shape shape = graph.type(logits).shape;
  if (shape.size() == 2) {
    return logits;
  }
  const std::vector<int64_t> sizes = {-1, shape[2].factor()};
  return Call(graph, "aten.view.default", {{"self", logits}, {"size", sizes}}, "samples",
              {graph.type(logits).dtype, {Dim::Batch(shape[0].factor() * shape[1].factor()), shape[2]}});
}

// Does the work of WithLossHead for a model that computes its own loss: keeps only the output "loss".
Graph WithLossAlone(Graph model) {
  model.SetOutputs({{"loss", *model.FindOutput("loss")}});
  return model;
}

// The two values that a head compares: the model's prediction and the labels.
struct Compared {
  ValueId predicted;
  ValueId labels;
};

// Adds the input "labels". REQUIRES: `head` takes the model's output, and is not kOwnLoss.
Compared AddLabels(Graph& graph, Head head) {
  ValueId predicted = *graph.FindOutput(OutputNamesOf(head).front());
  if (head == Head::kRegression || head == Head::kMultiLabel) {
    return {predicted, graph.AddInput("labels", {Dtype::kFloat32, graph.type(predicted).shape})};
  }
  predicted = Flat(graph, predicted);
  return {predicted, graph.AddInput("labels", {Dtype::kInt64, {graph.type(predicted).shape[0]}})};
}

std::string LossOpOf(Head head) {
  switch (head) {
    case Head::kRegression:
      return "aten.mse_loss.default";
    case Head::kMultiLabel:
      return "aten.binary_cross_entropy_with_logits.default";
    default:
      return "aten.cross_entropy_loss.default";
  }
}

// Adds the decision for each logit: whether the logit is above 0.
ValueId AddDecisions(Graph& graph, ValueId logits) {
  return Call(graph, "aten.gt.Scalar", {{"self", logits}, {"other", int64_t{0}}}, "predicted",
              {Dtype::kBool, graph.type(logits).shape});
}

// Adds the index of the largest logit along the last dimension. `shape`: the logits' shape without that dimension.
ValueId AddLikeliest(Graph& graph, ValueId logits, const Shape& shape) {
  return Call(graph, "aten.argmax.default", {{"self", logits}, {"dim", static_cast<int64_t>(shape.size())}},
              "predicted", {Dtype::kInt64, shape});
}

// Adds the prediction for each label: a class, or a bool that says whether the label's class applies.
ValueId AddPredicted(Graph& graph, Head head, const Compared& compared) {
  return head == Head::kMultiLabel ? AddDecisions(graph, compared.predicted)
                                   : AddLikeliest(graph, compared.predicted, graph.type(compared.labels).shape);
}

ValueId AddNumCorrect(Graph& graph, ValueId predicted, ValueId labels) {
  const ValueId correct = Call(graph, "aten.eq.Tensor", {{"self", predicted}, {"other", labels}}, "correct",
                               {Dtype::kBool, graph.type(labels).shape});
  return Call(graph, "aten.sum.default", {{"self", correct}}, "num_correct", {Dtype::kInt64, {}});
}

}  // namespace

absl::StatusOr<Graph> WithLossHead(const Graph& model) {
  AMPD_ASSIGN_OR_RETURN(const Head head, NeededHeadOf(model));
  Graph graph = model;
  if (head == Head::kOwnLoss) {
    return WithoutDeadNodes(WithLossAlone(std::move(graph)));
  }
  const auto [predicted, labels] = AddLabels(graph, head);
  const ValueId loss =
      Call(graph, LossOpOf(head), {{"self", predicted}, {"target", labels}}, "loss", {Dtype::kFloat32, {}});
  graph.SetOutputs({{"loss", loss}});
  return WithoutDeadNodes(graph);
}

absl::StatusOr<Graph> WithEvalHead(const Graph& evaluation) {
  AMPD_ASSIGN_OR_RETURN(const Head head, NeededHeadOf(evaluation));
  Graph graph = evaluation;
  if (head == Head::kOwnLoss) {
    return WithoutDeadNodes(WithLossAlone(std::move(graph)));
  }
  const Compared compared = AddLabels(graph, head);
  const ValueId loss = Call(graph, LossOpOf(head),
                            {{"self", compared.predicted}, {"target", compared.labels}, {"reduction", kReductionSum}},
                            "loss_sum", {Dtype::kFloat32, {}});
  std::vector<Output> outputs = {{"loss_sum", loss}};
  if (HasAccuracy(head)) {
    const ValueId predicted = AddPredicted(graph, head, compared);
    outputs.push_back({"num_correct", AddNumCorrect(graph, predicted, compared.labels)});
    if (PredictsClasses(head)) {
      outputs.push_back({"predicted", predicted});
    }
    if (head == Head::kClassification) {
      outputs.push_back({"logits", compared.predicted});
    }
  }
  graph.SetOutputs(std::move(outputs));
  return WithoutDeadNodes(graph);
}

absl::StatusOr<Graph> WithPredictions(const Graph& evaluation) {
  AMPD_ASSIGN_OR_RETURN(const Head head, NeededHeadOf(evaluation));
  Graph graph = evaluation;
  const ValueId output = *graph.FindOutput(OutputNamesOf(head).front());
  const Shape shape = graph.type(output).shape;
  switch (head) {
    case Head::kClassification:
      graph.SetOutputs({{"class", AddLikeliest(graph, output, {shape[0]})}, {"logits", output}});
      break;
    case Head::kLanguageModel:
      graph.SetOutputs({{"tokens", AddLikeliest(graph, output, {shape[0], shape[1]})}});
      break;
    case Head::kRegression:
      graph.SetOutputs({{"predictions", output}});
      break;
    case Head::kMultiLabel:
      graph.SetOutputs({{"labels", AddDecisions(graph, output)}, {"logits", output}});
      break;
    default:
      return Error(absl::StatusCode::kInvalidArgument, "NO_HEAD",
                   absl::StrCat("model ", evaluation.name(), " computes its own loss and predicts nothing"));
  }
  return WithoutDeadNodes(graph);
}

}  // namespace ampd::graph
