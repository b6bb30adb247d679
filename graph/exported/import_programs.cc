// Imports the evaluation program of a file, and both programs for a job (ImportEvalProgram and ImportPrograms).
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "graph/exported/exported_ops.h"
#include "graph/exported/import.h"
#include "graph/exported/node_fate.h"
#include "graph/heads.h"
#include "graph/losses.h"
#include "graph/modes.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "graph/print.h"

namespace ampd::graph {
namespace {

absl::Status SpecError(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR", message);
}

// A node that draws random numbers; null if there is none.
const Node* FindRandom(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (DrawsRandomNumbers(node)) {
      return &node;
    }
  }
  return nullptr;
}

// Returns advice that names a head which takes an output of this type; empty if there is none.
std::string Advice(const TensorType& output) {
  for (const Head head : {Head::kOwnLoss, Head::kRegression}) {
    if (Takes(head, output)) {
      return absl::StrCat("; model.exported.head ", std::string(HeadName(head)), " takes ", std::string(TakenBy(head)));
    }
  }
  return "";
}

absl::Status CheckGanInputs(const Graph& model) {
  if (model.FindInput("labels").has_value()) {
    return SpecError("the model takes labels, which the head GAN has not; export it without them");
  }
  const auto noise = model.FindInput("noise");
  const auto is_of_samples = [](const TensorType& type) {
    return type.dtype == Dtype::kFloat32 && !type.shape.empty() && type.shape[0] == Dim::Batch();
  };
  if (noise.has_value() && !is_of_samples(model.type(*noise))) {
    return SpecError(absl::StrCat("the model's input noise is ", ToText(model.type(*noise)),
                                  "; the head GAN draws float32[B, ...]"));
  }
  return absl::OkStatus();
}

// Checks that the head, given by the options or derived from the output, takes the outputs.
absl::Status CheckHead(const ImportOptions& options, const Graph& model) {
  const TensorType& first = model.type(model.outputs().front().value);
  const std::optional<Head> head = options.head.has_value() ? options.head : HeadOf(first);
  if (!head.has_value()) {
    return SpecError(absl::StrCat("model.exported.output ", options.output, " is ", ToText(first),
                                  "; without model.exported.head it is ", std::string(TakenBy(Head::kClassification)),
                                  " or ", std::string(TakenBy(Head::kLanguageModel)), Advice(first)));
  }
  for (size_t i = 0; i < OutputNamesOf(*head).size(); ++i) {
    if (const TensorType& output = model.type(model.outputs()[i].value); !Takes(*head, output)) {
      return SpecError(absl::StrCat(i == 0 ? "model.exported.output " : "the model's output ",
                                    options.output + static_cast<int>(i), " is ", ToText(output), "; the head ",
                                    std::string(HeadName(*head)), " takes ", std::string(TakenBy(*head))));
    }
  }
  if (*head == Head::kGan) {
    return CheckGanInputs(model);
  }
  if (*head != Head::kOwnLoss && model.FindInput("labels").has_value()) {
    return SpecError(absl::StrCat("the model takes labels, which the head ", std::string(HeadName(*head)),
                                  " compares with its output; set model.exported.head to OWN_LOSS and "
                                  "model.exported.output to its loss, or export it without them"));
  }
  return absl::OkStatus();
}

absl::Status CheckLabelCount(const ImportOptions& options, const Graph& model) {
  if (options.count_output.has_value() && options.head != Head::kOwnLoss) {
    return SpecError(
        "model.exported.count_output is set, which only the head OWN_LOSS takes; the other heads count "
        "their labels themselves");
  }
  const auto program = LabelCountProgram(model);
  return program.ok() ? absl::OkStatus()
                      : SpecError(absl::StrCat("model.exported.count_output ", options.count_output.value_or(0), " ",
                                               program.status().message()));
}

// The values that the backward pass of an output reaches.
std::set<ValueId> ReachedFrom(const Graph& model, ValueId output) {
  std::set<ValueId> reached = {output};
  for (auto node = model.nodes().rbegin(); node != model.nodes().rend(); ++node) {
    const bool leads =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId value) { return reached.contains(value); });
    if (leads && node->op != "aten.detach.default") {
      const std::vector<ValueId> uses = node->Uses();
      reached.insert(uses.begin(), uses.end());
    }
  }
  return reached;
}

// Checks a model that has a loss for each of its networks, such as a GAN: each loss must train all parameters of its
// network, and every parameter must belong to a network. Accepts any model with a head.
absl::Status CheckNetworks(const Graph& model) {
  const std::vector<Loss> losses = LossesOf(model);
  std::set<ValueId> trained;
  for (const Loss& loss : losses) {
    const std::set<ValueId> reached = ReachedFrom(model, *model.FindOutput(loss.output));
    const size_t num_before = trained.size();
    for (const State& parameter : model.parameters()) {
      if (!GlobMatches(loss.parameters, parameter.name)) {
        continue;
      }
      if (!reached.contains(parameter.value)) {
        return SpecError(
            absl::StrCat(parameter.name, " is a parameter of the ", loss.network,
                         ", whose loss gives it no gradient; freeze it by requires_grad_(False), or let the "
                         "loss depend on it"));
      }
      trained.insert(parameter.value);
    }
    if (trained.size() == num_before) {
      return SpecError(absl::StrCat("the head GAN trains the parameters of the module \"", loss.network, "\" by the ",
                                    loss.network, "'s loss, and the model has none that require a gradient"));
    }
  }
  for (const State& parameter : model.parameters()) {
    if (!losses.empty() && !trained.contains(parameter.value)) {
      return SpecError(absl::StrCat("the head GAN trains the modules \"discriminator\" and \"generator\", and ",
                                    parameter.name, " is of neither; freeze it, or move it into one of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> ImportEvalProgram(const ExportedModel& model, const ImportOptions& options) {
  if (model.eval.has_value()) {
    AMPD_ASSIGN_OR_RETURN(const Graph eval, ImportProgram(model, *model.eval, options));
    return OwnEvalProgram(eval);
  }
  AMPD_ASSIGN_OR_RETURN(const Graph train, ImportProgram(model, model.train, options));
  Graph eval = EvalProgram(train);
  if (const Node* const node = FindRandom(eval); node != nullptr) {
    return BadExport(absl::StrCat(node->op, " of ", node->module_path,
                                  " is random in evaluation too, and the file has no evaluation program; write the "
                                  "file with ampd.export, which adds one"));
  }
  return eval;
}

std::vector<std::string> RefusedOps(const ExportedProgram& program) {
  const std::set<std::string> counters = CountersOf(program);
  std::set<std::string> ops;
  std::vector<std::string> refused;
  for (const ExportedNode& node : program.graph.nodes) {
    if (FateOf(program, counters, node) == NodeFate::kRefused && ops.insert(OpOf(node)).second) {
      refused.push_back(RefusalOf(node));
    }
  }
  return refused;
}

bool IsEvalMode(const Graph& graph) {
  bool has_modes = false;
  for (const Node& node : graph.nodes()) {
    const OpRow* const row = FindOp(node.op);
    if (row == nullptr) {
      continue;
    }
    if (Trains(*row, node) || (!row->dropout_argument.empty() && DrawsRandomNumbers(node))) {
      return false;
    }
    has_modes = has_modes || (HasModes(*row, node) && node.Find(row->training_argument) != nullptr);
  }
  return has_modes;
}

absl::StatusOr<ImportedPrograms> ImportPrograms(const ExportedModel& model, const ImportOptions& options) {
  AMPD_ASSIGN_OR_RETURN(Graph train, ImportProgram(model, model.train, options));
  AMPD_ASSIGN_OR_RETURN(Graph eval, ImportEvalProgram(model, options));
  AMPD_RETURN_IF_ERROR(CheckHead(options, train));
  AMPD_RETURN_IF_ERROR(CheckHead(options, eval));
  AMPD_RETURN_IF_ERROR(CheckLabelCount(options, train));
  if (train.parameters().empty()) {
    return SpecError("the exported model has no parameter that requires a gradient");
  }
  AMPD_RETURN_IF_ERROR(CheckNetworks(train));
  ImportedPrograms programs{std::move(train), std::move(eval), {}};
  if (!model.eval.has_value() && IsEvalMode(programs.train)) {  // A file with two programs has them on purpose.
    programs.warnings.emplace_back(
        "the model was exported in evaluation mode: its norms keep their running statistics and its dropout does "
        "nothing; export it after model.train()");
  }
  return programs;
}

}  // namespace ampd::graph
