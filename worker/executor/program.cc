#include "worker/executor/program.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/modes.h"
#include "graph/op_table.h"
#include "graph/segments.h"
#include "worker/executor/constants.h"

namespace ampd::executor {
namespace {

using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::ValueId;
using ValueList = std::vector<std::optional<ValueId>>;

constexpr char kDevice[] = "device";

absl::Status UnknownOp(const Node& node, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "UNKNOWN_OP", absl::StrCat(node.Where(), " ", std::string(why)));
}

absl::Status BadArgument(const Node& node, std::string_view argument, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
               absl::StrCat(node.Where(), ": argument ", std::string(argument), " ", std::string(why)));
}

size_t IndexOf(ValueId id) { return static_cast<size_t>(id.index); }

std::vector<std::optional<size_t>> Indices(const ValueList& list) {
  std::vector<std::optional<size_t>> indices;
  for (const auto& id : list) {
    indices.push_back(id.has_value() ? std::optional(IndexOf(*id)) : std::nullopt);
  }
  return indices;
}

bool IsNumber(const Operand* operand) {
  return operand != nullptr && (std::holds_alternative<int64_t>(*operand) || std::holds_alternative<double>(*operand) ||
                                std::holds_alternative<bool>(*operand));
}

// Returns the op that computes the node: the node's own op, with one exception. If the node passes a number in place of
// a tensor to one of the ops that are named below, returns the op's overload for numbers. The op itself would copy the
// number to a GPU as a tensor: the host would wait, and the step could not be recorded.
std::string FormFor(const Node& node) {
  if (node.op == "aten.where.self") {
    const bool self = IsNumber(node.Find("self")), other = IsNumber(node.Find("other"));
    return self && other ? "aten.where.Scalar"
           : self        ? "aten.where.ScalarSelf"
           : other       ? "aten.where.ScalarOther"
                         : node.op;
  }
  if ((node.op == "aten.fill.Tensor" || node.op == "aten.fill_.Tensor") && IsNumber(node.Find("value"))) {
    return node.op == "aten.fill.Tensor" ? "aten.fill.Scalar" : "aten.fill_.Scalar";
  }
  return node.op;
}

// "aten.conv2d.default" -> ("aten::conv2d", "").
absl::StatusOr<c10::OperatorHandle> FindHandle(const Node& node) {
  const std::vector<std::string> parts = absl::StrSplit(FormFor(node), '.');
  if (parts.size() != 3) {
    return UnknownOp(node, "is not of the form namespace.name.overload");
  }
  if (graph::FindOp(node.op) == nullptr) {
    return UnknownOp(node, "is not an op that models may use");
  }
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {absl::StrCat(parts[0], "::", parts[1]), parts[2] == "default" ? "" : parts[2]});
  if (!handle.has_value()) {
    return UnknownOp(node, "is not in this LibTorch");
  }
  return *handle;
}

bool IsTensor(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind() == c10::TypeKind::TensorType;
}

bool TakesIntegers(const c10::Argument& argument) {
  const auto optional = argument.type()->cast<c10::OptionalType>();
  const auto list = (optional ? optional->getElementType() : argument.type())->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::IntType;
}

absl::Status PlaceOperand(const Node& node, const c10::Argument& argument, const Operand& operand, size_t position,
                          Instruction& instruction) {
  if (const auto* value = std::get_if<ValueId>(&operand)) {
    if (!IsTensor(argument.type())) {
      return BadArgument(node, argument.name(), "does not take a tensor");
    }
    instruction.values.push_back({position, IndexOf(*value)});
    return absl::OkStatus();
  }
  if (const auto* list = std::get_if<ValueList>(&operand)) {
    const auto type = argument.type()->cast<c10::ListType>();
    if (!type || !IsTensor(type->getElementType())) {
      return BadArgument(node, argument.name(), "does not take a list of tensors");
    }
    const bool optionals = type->getElementType()->kind() == c10::TypeKind::OptionalType;
    instruction.lists.push_back({position, Indices(*list), optionals});
    return absl::OkStatus();
  }
  if (const auto* sizes = std::get_if<graph::Shape>(&operand)) {
    if (!TakesIntegers(argument)) {
      return BadArgument(node, argument.name(), "does not take a list of sizes");
    }
    instruction.sizes.push_back({position, *sizes});
    return absl::OkStatus();
  }
  auto constant = ToIValue(operand, argument);
  if (!constant.has_value()) {
    return BadArgument(node, argument.name(),
                       absl::StrCat("does not take this constant; it is ", argument.type()->str()));
  }
  instruction.stack[position] = *std::move(constant);
  return absl::OkStatus();
}

bool ReturnsList(const c10::FunctionSchema& schema) {
  return schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::ListType;
}

absl::Status CheckNames(const Node& node, const c10::FunctionSchema& schema) {
  for (const graph::Argument& argument : node.arguments) {
    if (!schema.argumentIndexWithName(argument.name).has_value()) {
      return BadArgument(node, argument.name, "is not in the op's schema");
    }
  }
  if (!ReturnsList(schema) && node.outputs.size() != schema.returns().size()) {
    return BadArgument(node, "outputs",
                       absl::StrCat("are ", node.outputs.size(), ", the op returns ", schema.returns().size()));
  }
  return absl::OkStatus();
}

absl::Status CompileAten(const Node& node, Instruction& instruction) {
  AMPD_ASSIGN_OR_RETURN(instruction.handle, FindHandle(node));
  const c10::FunctionSchema& schema = instruction.handle->schema();
  AMPD_RETURN_IF_ERROR(CheckNames(node, schema));
  instruction.returns_list = ReturnsList(schema);
  instruction.stack.resize(schema.arguments().size());
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (const Operand* operand = node.Find(argument.name())) {
      AMPD_RETURN_IF_ERROR(PlaceOperand(node, argument, *operand, i, instruction));
    } else if (argument.default_value().has_value()) {
      instruction.stack[i] = *argument.default_value();
    } else {
      return BadArgument(node, argument.name(), "is missing");
    }
  }
  if (instruction.values.empty() && instruction.lists.empty() && node.Find(kDevice) == nullptr) {
    const auto device = schema.argumentIndexWithName(kDevice);
    instruction.device = device.has_value() ? std::optional(static_cast<size_t>(*device)) : std::nullopt;
  }
  return absl::OkStatus();
}

absl::Status CompileCustom(const Node& node, const OpRegistry& registry, Instruction& instruction) {
  const BoxedOp* op = registry.Find(node.op);
  if (op == nullptr) {
    return UnknownOp(node, "is not registered");
  }
  instruction.custom = *op;
  instruction.stack.resize(node.arguments.size());
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const Operand& operand = node.arguments[i].operand;
    if (const auto* value = std::get_if<ValueId>(&operand)) {
      instruction.values.push_back({i, IndexOf(*value)});
    } else if (const auto* list = std::get_if<ValueList>(&operand)) {
      instruction.lists.push_back({i, Indices(*list), true});
    } else {
      instruction.stack[i] = ToIValue(operand);
    }
  }
  return absl::OkStatus();
}

// Computes aten.copy with the gradients of aten.copy_, because LibTorch's aten.copy has no gradient.
struct CopyFunction : torch::autograd::Function<CopyFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& self, const at::Tensor& src) {
    context->saved_data["sizes"] = src.sizes().vec();
    context->saved_data["dtype"] = static_cast<int64_t>(src.scalar_type());
    return at::empty_like(self).copy_(src);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor& gradient = gradients[0];
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    at::Tensor of_src;
    if (at::isFloatingType(dtype)) {
      of_src = at::sum_to(gradient, context->saved_data["sizes"].toIntVector()).to(dtype);
    }
    return {at::zeros_like(gradient), of_src};
  }
};

void Copy(std::vector<c10::IValue>& stack) { stack = {CopyFunction::apply(stack[0].toTensor(), stack[1].toTensor())}; }

absl::StatusOr<Instruction> CompileNode(const Node& node, const OpRegistry& registry) {
  Instruction instruction;
  const bool ours = node.op.starts_with("ampd.");
  AMPD_RETURN_IF_ERROR(ours ? CompileCustom(node, registry, instruction) : CompileAten(node, instruction));
  if (node.op == "aten.copy.default") {
    instruction.handle.reset();
    instruction.custom = Copy;
  }
  const graph::OpRow* const row = graph::FindOp(node.op);
  instruction.no_gradient = row != nullptr && row->no_gradient;
  instruction.where = node.Where();
  for (ValueId output : node.outputs) {
    instruction.results.push_back(IndexOf(output));
  }
  return instruction;
}

// Marks the values that are not freed after their last use: parameters, buffers and outputs.
std::vector<bool> KeptValues(const Graph& graph) {
  std::vector<bool> kept(static_cast<size_t>(graph.num_values()), false);
  for (const auto* states : {&graph.parameters(), &graph.buffers()}) {
    for (const graph::State& state : *states) {
      kept[IndexOf(state.value)] = true;
    }
  }
  for (const graph::Output& output : graph.outputs()) {
    kept[IndexOf(output.value)] = true;
  }
  return kept;
}

// Marks where the instruction uses a value for the last time. Call it on the instructions in reverse order:
// `used_later` records the values that later instructions use.
void MarkLastUses(Instruction& instruction, std::vector<bool>& used_later) {
  for (size_t result : instruction.results) {
    if (!used_later[result]) {
      instruction.drop.push_back(result);
    }
  }
  for (const ListUse& list : instruction.lists) {
    for (const auto& value : list.values) {
      if (value.has_value() && !used_later[*value]) {
        used_later[*value] = true;
        instruction.drop.push_back(*value);
      }
    }
  }
  for (auto use = instruction.values.rbegin(); use != instruction.values.rend(); ++use) {
    use->last = !used_later[use->value];
    used_later[use->value] = true;
  }
}

void MarkLastUses(std::vector<Instruction>& program, std::vector<bool>& used_later) {
  for (auto instruction = program.rbegin(); instruction != program.rend(); ++instruction) {
    if (instruction->segment) {
      MarkLastUses(instruction->segment->first, used_later);
    } else {
      MarkLastUses(*instruction, used_later);
    }
  }
}

absl::StatusOr<Instruction> CompileSegment(const Graph& graph, const graph::Segment& segment,
                                           const OpRegistry& registry) {
  auto compiled = c10::make_intrusive<CompiledSegment>();
  compiled->num_values = static_cast<size_t>(graph.num_values());
  for (size_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = graph.nodes()[i];
    compiled->random = compiled->random || graph::DrawsRandomNumbers(node);
    AMPD_ASSIGN_OR_RETURN(compiled->first.emplace_back(), CompileNode(node, registry));
    AMPD_ASSIGN_OR_RETURN(compiled->second.emplace_back(), CompileNode(graph::ForSecondRun(node), registry));
  }
  for (ValueId input : segment.inputs) {
    compiled->inputs.push_back(IndexOf(input));
  }
  std::vector<bool> used_later(compiled->num_values, false);
  for (ValueId output : segment.outputs) {
    compiled->outputs.push_back(IndexOf(output));
    used_later[IndexOf(output)] = true;
  }
  MarkLastUses(compiled->second, used_later);
  Instruction instruction;
  instruction.segment = std::move(compiled);
  instruction.where = absl::StrCat("the checkpoint segment ", graph.nodes()[segment.begin].segment);
  return instruction;
}

}  // namespace

absl::StatusOr<std::vector<Instruction>> Compile(const Graph& graph, const OpRegistry& registry) {
  AMPD_RETURN_IF_ERROR(graph.Check());
  std::vector<Instruction> program;
  for (const graph::Segment& segment : graph::SegmentsOf(graph)) {
    if (segment.recomputed) {
      AMPD_ASSIGN_OR_RETURN(program.emplace_back(), CompileSegment(graph, segment, registry));
      continue;
    }
    for (size_t i = segment.begin; i < segment.end; ++i) {
      AMPD_ASSIGN_OR_RETURN(program.emplace_back(), CompileNode(graph.nodes()[i], registry));
    }
  }
  std::vector<bool> used_later = KeptValues(graph);
  MarkLastUses(program, used_later);
  return program;
}

}  // namespace ampd::executor
