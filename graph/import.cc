#include "graph/import.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/exported_ops.h"
#include "graph/op_table.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

using Kind = ExportedInput::Kind;

constexpr int64_t kMaxElements = int64_t{1} << 36;

absl::Status UnknownOp(const ExportedNode& node) {
  return Error(absl::StatusCode::kInvalidArgument, "UNKNOWN_OP",
               absl::StrCat(Where(node), " is not an op that models may use"));
}

class Importer {
 public:
  // By name.
  struct State {
    std::set<std::string> names;  // of tied parameters, the first
    std::set<std::string> trained;
  };

  // `state`: of the graph, what the training program has; null: this is the training program, and all parameters that
  // require gradients are trained.
  Importer(const ExportedModel& model, const ExportedProgram& program, int output, const State* state)
      : model_(model),
        program_(program),
        output_(output),
        state_(state),
        counters_(CountersOf(program)),
        graph_("exported") {}

  absl::StatusOr<Graph> Run() && {
    AMPD_RETURN_IF_ERROR(FindBatch());
    for (const ExportedInput& input : program_.inputs) {
      AMPD_RETURN_IF_ERROR(AddInput(input));
    }
    for (const ExportedNode& node : program_.graph.nodes) {
      AMPD_RETURN_IF_ERROR(AddNode(node));
    }
    AMPD_RETURN_IF_ERROR(AddOutput());
    AMPD_RETURN_IF_ERROR(graph_.Check());
    auto plain = WithoutInPlaceOps(WithoutDeadNodes(graph_));
    return plain.ok() ? std::move(plain) : BadExport(std::string(plain.status().message()));
  }

 private:
  absl::Status FindBatch() {
    for (const ExportedInput& input : program_.inputs) {
      if (input.kind != Kind::kUser) {
        continue;
      }
      const std::vector<ExportedSize>& sizes = program_.graph.tensors.at(input.tensor).sizes;
      if (sizes.empty() || sizes[0].symbol.empty() || sizes[0].factor != 1) {
        return BadExport(absl::StrCat("the first size of the input ", input.tensor,
                                      " is a number; export the model with a dynamic batch size"));
      }
      batch_ = sizes[0].symbol;
      return absl::OkStatus();
    }
    return BadExport("the program has no input");
  }

  absl::StatusOr<Dim> DimOf(const ExportedSize& size, const std::string& what) const {
    if (size.unknown.empty() && size.symbol.empty()) {
      return Dim(size.factor);
    }
    if (size.symbol != batch_) {
      return BadExport(absl::StrCat(what, " has a size ", size.symbol, size.unknown,
                                    ", which is no number and no multiple of the batch size; export the model with no "
                                    "other dynamic size"));
    }
    return Dim::Batch(size.factor);
  }

  absl::StatusOr<TensorType> TypeOf(const std::string& tensor) const {
    const auto found = program_.graph.tensors.find(tensor);
    if (found == program_.graph.tensors.end()) {
      return BadExport(absl::StrCat("the tensor ", tensor, " has no type"));
    }
    TensorType type{found->second.dtype, {}};
    int64_t elements = 1;  // of one sample
    for (const ExportedSize& size : found->second.sizes) {
      AMPD_ASSIGN_OR_RETURN(const Dim dim, DimOf(size, tensor));
      if (__builtin_mul_overflow(elements, dim.factor(), &elements) || elements > kMaxElements) {
        return BadExport(absl::StrCat("the tensor ", tensor, " has more than ", kMaxElements, " numbers"));
      }
      type.shape.push_back(dim);
    }
    return type;
  }

  absl::StatusOr<ValueId> Find(const std::string& tensor) const {
    const auto found = values_.find(tensor);
    return found == values_.end() ? absl::StatusOr<ValueId>(BadExport(
                                        absl::StrCat("the tensor ", tensor, " is read before anything gives it")))
                                  : found->second;
  }

  absl::Status Define(const std::string& tensor, ValueId value) {
    return values_.emplace(tensor, value).second ? absl::OkStatus()
                                                 : BadExport(absl::StrCat("the tensor ", tensor, " is computed twice"));
  }

  std::string InputName(const ExportedInput& input, const TensorType& type) const {
    const auto is_user = [](const ExportedInput& one) { return one.kind == Kind::kUser; };
    if (std::count_if(program_.inputs.begin(), program_.inputs.end(), is_user) > 1) {
      return input.tensor;
    }
    return type.dtype == Dtype::kInt64 ? "input_ids" : "images";
  }

  absl::Status AddInput(const ExportedInput& input) {
    AMPD_ASSIGN_OR_RETURN(TensorType type, TypeOf(input.tensor));
    if (input.kind == Kind::kUser) {
      const std::string name = InputName(input, type);
      return Define(input.tensor, graph_.AddInput(name, std::move(type)));
    }
    const bool elsewhere = state_ != nullptr && input.kind != Kind::kParameter && !state_->names.contains(input.name);
    if (counters_.contains(input.tensor) || elsewhere) {
      return absl::OkStatus();
    }
    const StoredTensor& stored = model_.state.at(input.name);
    const auto tied =
        std::find_if(placed_.begin(), placed_.end(), [&](const auto& other) { return other.first == stored; });
    if (input.kind == Kind::kParameter && tied != placed_.end()) {
      return Define(input.tensor, tied->second);
    }
    // Their content is the file's.
    const Initializer none = Initializer::Constant(0);
    const bool trained =
        input.kind == Kind::kParameter && (state_ == nullptr ? program_.graph.tensors.at(input.tensor).requires_grad
                                                             : state_->trained.contains(input.name));
    if (trained && type.dtype != Dtype::kFloat32) {
      return BadExport(absl::StrCat("the parameter ", input.name, " is ", std::string(DtypeName(type.dtype)),
                                    "; export the model in float32, the job's precision says the rest"));
    }
    const ValueId value = trained ? graph_.AddParameter(input.name, std::move(type), none)
                                  : graph_.AddBuffer(input.name, std::move(type), none);
    if (input.kind == Kind::kParameter && !stored.sizes.empty()) {
      placed_.emplace_back(stored, value);
    }
    return Define(input.tensor, value);
  }

  absl::Status AddNode(const ExportedNode& node) {
    if (IsAboutSizes(node) || (node.tensors.size() == 1 && counters_.contains(node.tensors[0]))) {
      return absl::OkStatus();
    }
    const std::string op = OpOf(node);
    if (node.tensors.size() == 1 && (IsIdentity(node) || ChangesNothing(node))) {
      return AddIdentity(node);
    }
    if (FindOp(op) == nullptr || node.gives_numbers) {
      return UnknownOp(node);
    }
    Node added{.op = op, .arguments = {}, .outputs = {}, .module_path = node.module_path};
    for (const auto& [name, argument] : node.arguments) {
      AMPD_RETURN_IF_ERROR(AddArgument(node, name, argument, added));
    }
    Adapt(added);
    for (const std::string& tensor : node.tensors) {
      AMPD_ASSIGN_OR_RETURN(TensorType type, TypeOf(tensor));
      added.outputs.push_back(graph_.AddValue(tensor, std::move(type)));
      AMPD_RETURN_IF_ERROR(Define(tensor, added.outputs.back()));
    }
    graph_.AddNode(std::move(added));
    return absl::OkStatus();
  }

  // A cast to the dtype that is there, and dropout of nothing.
  bool ChangesNothing(const ExportedNode& node) const {
    const std::string op = OpOf(node);
    if (op == "aten.dropout.default" || op == "aten.dropout_.default") {
      const ExportedArgument* const p = FindArgument(node, "p");
      const auto* const real = p == nullptr ? nullptr : std::get_if<double>(p);
      return real != nullptr && *real == 0;
    }
    if (!absl::StartsWith(op, "aten.to.dtype") && op != "aten._to_copy.default" && op != "aten.type_as.default") {
      return false;
    }
    const auto& tensors = program_.graph.tensors;
    const auto before = tensors.find(TensorOf(node, "self"));
    const auto after = tensors.find(node.tensors[0]);
    return before != tensors.end() && after != tensors.end() && before->second.dtype == after->second.dtype;
  }

  absl::Status AddIdentity(const ExportedNode& node) {
    const auto* const source = node.arguments.empty() ? nullptr : std::get_if<TensorName>(&node.arguments[0].second);
    AMPD_ASSIGN_OR_RETURN(const ValueId value, Find(source == nullptr ? "" : source->name));
    return Define(node.tensors[0], value);
  }

  absl::Status BadArgument(const ExportedNode& node, const std::string& name, std::string_view why) const {
    return BadExport(absl::StrCat(Where(node), ": the argument ", name, " ", std::string(why)));
  }

  absl::StatusOr<std::vector<std::optional<ValueId>>> ValuesOf(
      const std::vector<std::optional<TensorName>>& names) const {
    std::vector<std::optional<ValueId>> values;
    for (const auto& name : names) {
      values.emplace_back();
      if (name.has_value()) {
        AMPD_ASSIGN_OR_RETURN(values.back(), Find(name->name));
      }
    }
    return values;
  }

  absl::StatusOr<Dim> DimOf(const SizeName& size, const std::string& what) const {
    if (size.name.empty()) {
      return Dim(size.number);
    }
    const auto found = program_.graph.numbers.find(size.name);
    if (found == program_.graph.numbers.end()) {
      return BadExport(absl::StrCat(what, ": the number ", size.name, " is not known"));
    }
    return DimOf(found->second, what);
  }

  // Sizes of which the one that depends on the batch is left to the op, as -1.
  absl::Status AddSizes(const ExportedNode& node, const std::string& name, const std::vector<SizeName>& sizes,
                        Node& added) const {
    Shape shape;
    for (const SizeName& size : sizes) {
      AMPD_ASSIGN_OR_RETURN(const Dim dim, DimOf(size, Where(node)));
      shape.push_back(dim);
    }
    const auto is_batch = [](const Dim& dim) { return dim.is_batch(); };
    if (std::any_of(shape.begin(), shape.end(), is_batch)) {
      if ((added.op != "aten.view.default" && added.op != "aten.reshape.default") || node.tensors.size() != 1) {
        return BadArgument(node, name, "depends on the batch size");
      }
      AMPD_ASSIGN_OR_RETURN(const TensorType type, TypeOf(node.tensors[0]));
      shape = type.shape;
    }
    std::vector<int64_t> numbers;
    for (const Dim& dim : shape) {
      numbers.push_back(dim.is_batch() ? -1 : dim.factor());
    }
    if (std::count_if(shape.begin(), shape.end(), is_batch) > 1) {
      return BadArgument(node, name, "depends on the batch size in two places");
    }
    added.Set(name, std::move(numbers));
    return absl::OkStatus();
  }

  absl::Status AddArgument(const ExportedNode& node, const std::string& name, const ExportedArgument& argument,
                           Node& added) const {
    if (std::holds_alternative<Placement>(argument) || name == "pin_memory") {
      return absl::OkStatus();
    }
    if (const auto* tensor = std::get_if<TensorName>(&argument)) {
      AMPD_ASSIGN_OR_RETURN(const ValueId value, Find(tensor->name));
      added.Set(name, value);
      return absl::OkStatus();
    }
    if (const auto* list = std::get_if<std::vector<std::optional<TensorName>>>(&argument)) {
      AMPD_ASSIGN_OR_RETURN(auto values, ValuesOf(*list));
      added.Set(name, std::move(values));
      return absl::OkStatus();
    }
    if (const auto* size = std::get_if<SizeName>(&argument)) {
      AMPD_ASSIGN_OR_RETURN(const Dim dim, DimOf(*size, Where(node)));
      if (dim.is_batch()) {
        return BadArgument(node, name, "depends on the batch size");
      }
      added.Set(name, dim.factor());
      return absl::OkStatus();
    }
    if (const auto* sizes = std::get_if<std::vector<SizeName>>(&argument)) {
      return AddSizes(node, name, *sizes, added);
    }
    if (std::holds_alternative<std::shared_ptr<const ExportedGraph>>(argument)) {
      return BadArgument(node, name, "is a graph of its own");
    }
    added.Set(name, Constant(argument));
    return absl::OkStatus();
  }

  // REQUIRES: none of the kinds above.
  static Operand Constant(const ExportedArgument& argument) {
    return std::visit(
        [](const auto& constant) -> Operand {
          using T = std::decay_t<decltype(constant)>;
          if constexpr (std::is_same_v<T, MemoryFormat>) {
            return constant.number;
          } else if constexpr (std::is_constructible_v<Operand, T>) {
            return constant;
          } else {
            return std::monostate();
          }
        },
        argument);
  }

  // What was fixed by the machine of the export, or by its layouts: images may lie channels-last here, where a view in
  // another shape has to be a copy.
  static void Adapt(Node& node) {
    if (node.op == "aten.batch_norm.default") {
      node.Set("cudnn_enabled", true);
    } else if (node.op == "aten.view.default") {
      node.op = "aten.reshape.default";
      for (Argument& argument : node.arguments) {
        argument.name = argument.name == "size" ? "shape" : argument.name;
      }
    }
  }

  absl::Status AddOutput() {
    const auto& outputs = program_.graph.outputs;
    const auto index = static_cast<size_t>(output_);
    if (index >= outputs.size() || !outputs[index].has_value()) {
      return BadExport(
          absl::StrCat("the program has no tensor as its output ", output_, "; it has ", outputs.size(), " outputs"));
    }
    AMPD_ASSIGN_OR_RETURN(const ValueId value, Find(*outputs[index]));
    graph_.AddOutput("logits", value);
    return absl::OkStatus();
  }

  const ExportedModel& model_;
  const ExportedProgram& program_;
  const int output_;
  const State* const state_;
  const std::set<std::string> counters_;
  Graph graph_;
  std::string batch_;
  std::map<std::string, ValueId> values_;
  std::vector<std::pair<StoredTensor, ValueId>> placed_;  // parameters
};

// Of a training program's graph. What nothing reads is not trained.
Importer::State StateOf(const Graph& train) {
  std::set<ValueId> read;
  for (const Node& node : train.nodes()) {
    const std::vector<ValueId> uses = node.Uses();
    read.insert(uses.begin(), uses.end());
  }
  Importer::State state;
  for (const graph::State& parameter : train.parameters()) {
    state.names.insert(parameter.name);
    if (read.contains(parameter.value)) {
      state.trained.insert(parameter.name);
    }
  }
  for (const graph::State& buffer : train.buffers()) {
    state.names.insert(buffer.name);
  }
  return state;
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

}  // namespace

absl::StatusOr<Graph> ImportProgram(const ExportedModel& model, const ExportedProgram& program, int output) {
  AMPD_ASSIGN_OR_RETURN(const Graph train, Importer(model, model.train, output, /*state=*/nullptr).Run());
  const Importer::State state = StateOf(train);
  return Importer(model, program, output, &state).Run();
}

absl::StatusOr<Graph> ImportEvalProgram(const ExportedModel& model, int output) {
  if (model.eval.has_value()) {
    return ImportProgram(model, *model.eval, output);
  }
  AMPD_ASSIGN_OR_RETURN(const Graph train, ImportProgram(model, model.train, output));
  Graph eval = EvalProgram(train);
  if (const Node* const node = FindAlwaysRandom(eval); node != nullptr) {
    return BadExport(absl::StrCat(node->op, " of ", node->module_path,
                                  " is random in evaluation too, and the file has no evaluation program; write the "
                                  "file with ampd.export, which adds one"));
  }
  return eval;
}

std::vector<std::string> RefusedOps(const ExportedProgram& program) {
  std::set<std::string> ops;
  std::vector<std::string> refused;
  for (const ExportedNode& node : program.graph.nodes) {
    const std::string op = OpOf(node);
    if (!IsAboutSizes(node) && !IsIdentity(node) && FindOp(op) == nullptr && ops.insert(op).second) {
      refused.push_back(Where(node));
    }
  }
  return refused;
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

}  // namespace ampd::graph
