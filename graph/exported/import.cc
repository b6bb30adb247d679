#include "graph/exported/import.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/einsum/einsum.h"
#include "graph/exported/adapted_nodes.h"
#include "graph/exported/call_rules.h"
#include "graph/exported/constant_ranges.h"
#include "graph/exported/exported_constants.h"
#include "graph/exported/exported_ops.h"
#include "graph/exported/exported_types.h"
#include "graph/exported/input_names.h"
#include "graph/exported/node_fate.h"
#include "graph/op_table.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

using Kind = ExportedInput::Kind;

class Importer {
 public:
  // Names of all parameters and buffers (constants are buffers), and of the trained parameters.
  struct State {
    std::set<std::string> names;  // Of tied parameters, only the first name.
    std::set<std::string> trained;
  };

  // `state` is the state of the training program's graph. If it is null, all parameters that require gradients are
  // trained.
  Importer(const ExportedModel& model, const ExportedProgram& program, const ExportedTypes& types,
           const ImportOptions& options, const State* state)
      : model_(model),
        program_(program),
        types_(types),
        options_(options),
        state_(state),
        counters_(CountersOf(program)),
        graph_("exported") {}

  absl::StatusOr<Graph> Run() && {
    graph_.SetBatchRange(types_.batch_range());
    AMPD_RETURN_IF_ERROR(AddInputs());
    for (const ExportedNode& node : program_.graph.nodes) {
      AMPD_RETURN_IF_ERROR(AddNode(node));
    }
    AMPD_RETURN_IF_ERROR(AddOutputs());
    AMPD_RETURN_IF_ERROR(graph_.Check());
    const auto parts = WithoutEinsums(WithoutDeadNodes(graph_));
    const auto plain = parts.ok() ? WithoutInPlaceOps(WithoutDeadNodes(*parts)) : parts;
    if (!plain.ok()) {
      return BadExport(std::string(plain.status().message()));
    }
    if (const std::string fault = FaultOfConstantIndices(*plain); !fault.empty()) {
      return BadExport(fault);
    }
    return WithSoundCalls(WithoutFreshCopies(*plain));
  }

 private:
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

  absl::Status AddInputs() {
    std::vector<const ExportedInput*> first, others;
    std::set<std::string> given;
    for (const ExportedInput& input : program_.inputs) {
      const bool is_user = input.kind == Kind::kUser;
      (is_user && HoldsSamples(NameOf(input)) ? first : others).push_back(&input);
      given.insert(is_user ? input.tensor : "");
    }
    for (const auto& [name, unused] : options_.inputs) {
      if (!given.contains(name)) {
        return BadExport(absl::StrCat("the program has no input ", name));
      }
    }
    first.insert(first.end(), others.begin(), others.end());
    for (const ExportedInput* const input : first) {
      AMPD_RETURN_IF_ERROR(AddInput(*input));
    }
    AddConstantsOfEvaluation();
    for (const auto& [name, mean] : NormCountersOf(program_)) {
      AMPD_ASSIGN_OR_RETURN(const ValueId running_mean, Find(mean));
      graph_.AddBatchCounter(name, running_mean);
    }
    return absl::OkStatus();
  }

  // Adds to the training program the constants that only the evaluation program reads. The two programs share their
  // state, so the graph of the training program must have all of it.
  void AddConstantsOfEvaluation() {
    if (&program_ != &model_.train) {
      return;
    }
    for (const ExportedInput& input : ConstantsOfEvaluation(model_)) {
      const StoredTensor& stored = model_.state.at(input.name);
      graph_.AddBuffer(input.name, {stored.dtype, Shape(stored.sizes.begin(), stored.sizes.end())},
                       Initializer::Constant(0));
    }
  }

  std::string NameOf(const ExportedInput& input) const { return InputNameOf(program_, input, options_.inputs); }

  absl::Status AddInput(const ExportedInput& input) {
    AMPD_ASSIGN_OR_RETURN(TensorType type, types_.TypeOf(input.tensor));
    if (input.kind == Kind::kUser) {
      const std::string name = NameOf(input);
      if (graph_.FindInput(name).has_value()) {
        return BadExport(absl::StrCat("two inputs of the program are called ", name));
      }
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
    // The initializer is never used, because the file has the tensor's content.
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
    if (input.kind == Kind::kParameter) {
      placed_.emplace_back(stored, value);
    }
    return Define(input.tensor, value);
  }

  absl::Status AddNode(const ExportedNode& node) {
    switch (FateOf(program_, counters_, node)) {
      case NodeFate::kSkipped:
        return absl::OkStatus();
      case NodeFate::kPassed:
        return AddIdentity(node);
      case NodeFate::kRefused:
        return Error(absl::StatusCode::kInvalidArgument, "UNKNOWN_OP", RefusalOf(node));
      case NodeFate::kRuns:
        break;
    }
    Node added{.op = OpOf(node),
               .arguments = {},
               .outputs = {},
               .module_path = node.module_path,
               .source = node.source,
               .keeps_fp32 = node.keeps_fp32 || node.named_dtype == NamedDtype::kMeant,
               .follows_dtype = node.named_dtype == NamedDtype::kFollows,
               .without_gradient = &program_ == &model_.train && node.without_gradient};
    for (const auto& [name, argument] : node.arguments) {
      AMPD_RETURN_IF_ERROR(AddArgument(node, name, argument, added));
    }
    AMPD_RETURN_IF_ERROR(AdaptNode(program_.graph, node, types_, added));
    for (const std::string& tensor : node.tensors) {
      AMPD_ASSIGN_OR_RETURN(TensorType type, types_.TypeOf(tensor));
      added.outputs.push_back(graph_.AddValue(tensor, std::move(type)));
      AMPD_RETURN_IF_ERROR(Define(tensor, added.outputs.back()));
    }
    if (const std::string fault = FaultOf(graph_, added); !fault.empty()) {
      return BadExport(absl::StrCat(Where(node), ": ", fault));
    }
    graph_.AddNode(std::move(added));
    return absl::OkStatus();
  }

  absl::Status AddIdentity(const ExportedNode& node) {
    if (BroadcastsNothing(program_.graph, node)) {
      const auto& list = std::get<std::vector<std::optional<TensorName>>>(*FindArgument(node, "tensors"));
      for (size_t i = 0; i < list.size(); ++i) {
        AMPD_ASSIGN_OR_RETURN(const ValueId value, Find(list[i]->name));
        AMPD_RETURN_IF_ERROR(Define(node.tensors[i], value));
      }
      return absl::OkStatus();
    }
    const auto* const source = node.arguments.empty() ? nullptr : std::get_if<TensorName>(&node.arguments[0].second);
    AMPD_ASSIGN_OR_RETURN(ValueId value, Find(source == nullptr ? "" : source->name));
    // Keep the copy as a node: a program may write this copy of a constant in place, but not the constant itself.
    if (OpOf(node) == kFreshCopy) {
      const Node copy{.op = kFreshCopy, .arguments = {{"self", value}}, .outputs = {}, .module_path = {}};
      value = graph_.AddNode(copy, node.tensors[0], graph_.type(value));
    }
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

  // In a view, the size that depends on the batch is passed as -1, so that the op infers it.
  absl::Status AddSizes(const ExportedNode& node, const std::string& name, const std::vector<SizeName>& sizes,
                        Node& added) const {
    AMPD_ASSIGN_OR_RETURN(Shape shape, types_.ShapeOf(sizes, Where(node)));
    const auto is_batch = [](const Dim& dim) { return dim.is_batch(); };
    const bool depends = std::any_of(shape.begin(), shape.end(), is_batch);
    const bool is_view = added.op == "aten.view.default" || added.op == "aten.reshape.default";
    if (depends && is_view && node.tensors.size() == 1) {
      AMPD_ASSIGN_OR_RETURN(const TensorType type, types_.TypeOf(node.tensors[0]));
      shape = type.shape;
    }
    if (depends && (!is_view || std::count_if(shape.begin(), shape.end(), is_batch) > 1)) {
      added.Set(name, std::move(shape));
      return absl::OkStatus();
    }
    std::vector<int64_t> numbers;
    for (const Dim& dim : shape) {
      numbers.push_back(dim.is_batch() ? -1 : dim.factor());
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
      AMPD_ASSIGN_OR_RETURN(const Dim dim, types_.DimOf(*size, Where(node)));
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

  // The operand for an argument that is a plain constant. REQUIRES: the argument is none of the kinds that the caller
  // handles, such as tensors and sizes.
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

  absl::Status AddOutputs() {
    const auto& outputs = program_.graph.outputs;
    auto index = static_cast<size_t>(options_.output);
    for (const std::string_view name : OutputNamesOf(options_.head.value_or(Head::kClassification))) {
      if (index >= outputs.size() || !outputs[index].has_value()) {
        return BadExport(
            absl::StrCat("the program has no tensor as its output ", index, "; it has ", outputs.size(), " outputs"));
      }
      AMPD_ASSIGN_OR_RETURN(const ValueId value, Find(*outputs[index++]));
      graph_.AddOutput(std::string(name), value);
    }
    return options_.count_output.has_value() ? AddLabelCount(static_cast<size_t>(*options_.count_output))
                                             : absl::OkStatus();
  }

  absl::Status AddLabelCount(size_t index) {
    const auto& outputs = program_.graph.outputs;
    if (index >= outputs.size() || !outputs[index].has_value()) {
      return BadExport(absl::StrCat("model.exported.count_output is ", index,
                                    ", and the program has no such tensor; it has ", outputs.size(), " outputs"));
    }
    AMPD_ASSIGN_OR_RETURN(const ValueId value, Find(*outputs[index]));
    graph_.AddOutput(kLabelCount, value);
    return absl::OkStatus();
  }

  const ExportedModel& model_;
  const ExportedProgram& program_;
  const ExportedTypes& types_;
  const ImportOptions& options_;
  const State* const state_;
  const std::set<std::string> counters_;
  Graph graph_;
  std::map<std::string, ValueId> values_;
  std::vector<std::pair<StoredTensor, ValueId>> placed_;  // Parameters by their place in the file.
};

// Returns the names of the graph's parameters and buffers, and which parameters are trained: those that a node reads.
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

}  // namespace

absl::StatusOr<Graph> ImportProgram(const ExportedModel& model, const ExportedProgram& program,
                                    const ImportOptions& options) {
  AMPD_ASSIGN_OR_RETURN(const ExportedTypes train_types, ExportedTypes::Of(model.train, options.sequence_length));
  AMPD_ASSIGN_OR_RETURN(const Graph train, Importer(model, model.train, train_types, options, /*state=*/nullptr).Run());
  const Importer::State state = StateOf(train);
  AMPD_ASSIGN_OR_RETURN(const ExportedTypes types, ExportedTypes::Of(program, options.sequence_length));
  return Importer(model, program, types, options, &state).Run();
}

}  // namespace ampd::graph
