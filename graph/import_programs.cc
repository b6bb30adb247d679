// The programs of a file as a job takes them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
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

// Whether the head that the options name takes the model's output.
absl::Status CheckHead(const ImportOptions& options, const Graph& model) {
  const TensorType& logits = model.type(*model.FindOutput("logits"));
  const std::optional<Head> head = HeadOf(logits);
  if (!head.has_value() || options.head.value_or(*head) != *head) {
    return SpecError(absl::StrCat("model.exported.output ", options.output, " is ", ToText(logits),
                                  "; a head takes float32[B, classes] or float32[B, positions, vocabulary]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> ImportEvalProgram(const ExportedModel& model, int output, const InputNames& inputs) {
  if (model.eval.has_value()) {
    return ImportProgram(model, *model.eval, output, inputs);
  }
  AMPD_ASSIGN_OR_RETURN(const Graph train, ImportProgram(model, model.train, output, inputs));
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

std::optional<Head> HeadOf(const TensorType& output) {
  const Shape& shape = output.shape;
  const size_t rank = shape.size();
  if ((rank != 2 && rank != 3) || shape[0] != Dim::Batch() || output.dtype != Dtype::kFloat32 ||
      std::any_of(shape.begin() + 1, shape.end(), [](const Dim& dim) { return dim.is_batch(); })) {
    return std::nullopt;
  }
  return rank == 2 ? Head::kClassification : Head::kLanguageModel;
}

absl::StatusOr<ImportedPrograms> ImportPrograms(const ExportedModel& model, const ImportOptions& options) {
  AMPD_ASSIGN_OR_RETURN(Graph train, ImportProgram(model, model.train, options.output, options.inputs));
  AMPD_ASSIGN_OR_RETURN(Graph eval, ImportEvalProgram(model, options.output, options.inputs));
  AMPD_RETURN_IF_ERROR(CheckHead(options, train));
  AMPD_RETURN_IF_ERROR(CheckHead(options, eval));
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
