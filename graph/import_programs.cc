// The programs of a file as a job takes them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/heads.h"
#include "graph/import.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "graph/print.h"

namespace ampd::graph {
namespace {

absl::Status SpecError(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR", message);
}

// An op that draws random numbers in training and evaluation alike.
const Node* FindAlwaysRandom(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const OpRow* const row = FindOp(node.op);
    if (row != nullptr && row->random && row->training_argument.empty()) {
      return &node;
    }
  }
  return nullptr;
}

// What the output of that type needs a head for that nobody named; empty where no head takes it.
std::string Advice(const TensorType& output) {
  for (const Head head : {Head::kOwnLoss, Head::kRegression}) {
    if (Takes(head, output)) {
      return absl::StrCat("; model.exported.head ", std::string(HeadName(head)), " takes ", std::string(TakenBy(head)));
    }
  }
  return "";
}

// The model, its output called as the head takes it that the options name or the output tells.
absl::StatusOr<Graph> WithNamedHead(const ImportOptions& options, Graph model) {
  const ValueId value = model.outputs().front().value;
  const TensorType& output = model.type(value);
  const std::optional<Head> head = options.head.has_value() ? options.head : HeadOf(output);
  if (!head.has_value()) {
    return SpecError(absl::StrCat("model.exported.output ", options.output, " is ", ToText(output),
                                  "; without model.exported.head it is ", std::string(TakenBy(Head::kClassification)),
                                  " or ", std::string(TakenBy(Head::kLanguageModel)), Advice(output)));
  }
  if (!Takes(*head, output)) {
    return SpecError(absl::StrCat("model.exported.output ", options.output, " is ", ToText(output), "; the head ",
                                  std::string(HeadName(*head)), " takes ", std::string(TakenBy(*head))));
  }
  if (*head != Head::kOwnLoss && model.FindInput("labels").has_value()) {
    return SpecError(absl::StrCat("the model takes labels, which the head ", std::string(HeadName(*head)),
                                  " compares with its output; set model.exported.head to OWN_LOSS and "
                                  "model.exported.output to its loss, or export it without them"));
  }
  model.SetOutputs({{std::string(OutputNameOf(*head)), value}});
  return model;
}

}  // namespace

absl::StatusOr<Graph> ImportEvalProgram(const ExportedModel& model, int output, const InputNames& inputs,
                                        int64_t sequence_length) {
  if (model.eval.has_value()) {
    return ImportProgram(model, *model.eval, output, inputs, sequence_length);
  }
  AMPD_ASSIGN_OR_RETURN(const Graph train, ImportProgram(model, model.train, output, inputs, sequence_length));
  Graph eval = EvalProgram(train);
  if (const Node* const node = FindAlwaysRandom(eval); node != nullptr) {
    return BadExport(absl::StrCat(node->op, " of ", node->module_path,
                                  " is random in evaluation too, and the file has no evaluation program; write the "
                                  "file with ampd.export, which adds one"));
  }
  return eval;
}

bool IsEvalMode(const Graph& graph) {
  bool has_modes = false;
  for (const Node& node : graph.nodes()) {
    const OpRow* const row = FindOp(node.op);
    const Operand* const training =
        row == nullptr || row->training_argument.empty() ? nullptr : node.Find(row->training_argument);
    if (training != nullptr && *training == Operand(true)) {
      return false;
    }
    has_modes = has_modes || training != nullptr;
  }
  return has_modes;
}

absl::StatusOr<ImportedPrograms> ImportPrograms(const ExportedModel& model, const ImportOptions& options) {
  AMPD_ASSIGN_OR_RETURN(Graph train,
                        ImportProgram(model, model.train, options.output, options.inputs, options.sequence_length));
  AMPD_ASSIGN_OR_RETURN(Graph eval, ImportEvalProgram(model, options.output, options.inputs, options.sequence_length));
  AMPD_ASSIGN_OR_RETURN(train, WithNamedHead(options, std::move(train)));
  AMPD_ASSIGN_OR_RETURN(eval, WithNamedHead(options, std::move(eval)));
  if (train.parameters().empty()) {
    return SpecError("the exported model has no parameter that requires a gradient");
  }
  ImportedPrograms programs{std::move(train), std::move(eval), {}};
  if (IsEvalMode(programs.train)) {
    programs.warnings.emplace_back(
        "the model was exported in evaluation mode: its norms keep their running statistics and its dropout does "
        "nothing; export it after model.train()");
  }
  return programs;
}

}  // namespace ampd::graph
