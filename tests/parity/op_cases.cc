#include "tests/parity/op_cases.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/print.h"
#include "tests/parity/oracle.h"

namespace ampd::parity {
namespace {

using graph::Operand;
using graph::ValueId;
using nlohmann::json;
using Tensors = std::map<std::string, at::Tensor>;

graph::TensorType TypeOf(const json& described) {
  graph::TensorType type{*graph::DtypeFromName(described["dtype"].get<std::string>()), {}};
  for (const json& size : described["shape"]) {
    type.shape.emplace_back(size.get<int64_t>());
  }
  return type;
}

std::optional<ValueId> SlotOf(const json& slot, const std::vector<ValueId>& slots) {
  return slot.is_null() ? std::nullopt : std::optional(slots[slot.get<size_t>()]);
}

Operand NamedOperand(const json& argument, const std::vector<ValueId>& slots) {
  if (argument.contains("slot")) {
    return *SlotOf(argument["slot"], slots);
  }
  if (argument.contains("slots")) {
    std::vector<std::optional<ValueId>> values;
    for (const json& slot : argument["slots"]) {
      values.push_back(SlotOf(slot, slots));
    }
    return values;
  }
  if (argument.contains("real")) {
    return std::stod(argument["real"].get<std::string>());
  }
  return *graph::DtypeFromName(argument["dtype"].get<std::string>());
}

Operand OperandOf(const json& argument, const std::vector<ValueId>& slots) {
  switch (argument.type()) {
    case json::value_t::object:
      return NamedOperand(argument, slots);
    case json::value_t::array:
      return argument.get<std::vector<int64_t>>();
    case json::value_t::boolean:
      return argument.get<bool>();
    case json::value_t::string:
      return argument.get<std::string>();
    case json::value_t::null:
      return std::monostate();
    default:
      return argument.get<int64_t>();
  }
}

ValueId AddSlot(const json& slot, const std::string& name, graph::Graph& graph) {
  const std::string kind = slot["kind"];
  const graph::Initializer none = graph::Initializer::Constant(0);
  return kind == "parameter" ? graph.AddParameter(name, TypeOf(slot), none)
         : kind == "buffer"  ? graph.AddBuffer(name, TypeOf(slot), none)
                             : graph.AddInput(name, TypeOf(slot));
}

// Returns the tensors whose names start with `prefix`, with `prefix` replaced by `as`.
Tensors Take(const Tensors& oracle, const std::string& prefix, std::string_view as) {
  Tensors taken;
  for (auto it = oracle.lower_bound(prefix); it != oracle.end() && it->first.starts_with(prefix); ++it) {
    taken[absl::StrCat(std::string(as), it->first.substr(prefix.size()))] = it->second;
  }
  return taken;
}

OpCase CaseOf(const json& described, const Tensors& oracle, size_t number) {
  OpCase one;
  std::vector<ValueId> slots;
  for (const json& slot : described["slots"]) {
    slots.push_back(AddSlot(slot, absl::StrCat("slot", slots.size()), one.graph));
  }
  graph::Node node{.op = described["op"], .arguments = {}, .outputs = {}, .module_path = "module"};
  for (const auto& [name, argument] : described["arguments"].items()) {
    node.arguments.push_back({name, OperandOf(argument, slots)});
  }
  for (const json& result : described["results"]) {
    const std::string name = absl::StrCat("result", node.outputs.size());
    node.outputs.push_back(one.graph.AddValue(name, TypeOf(result)));
    one.graph.AddOutput(name, node.outputs.back());
  }
  one.graph.AddNode(std::move(node));
  for (const json& dtype : described.value("gives", json::array())) {
    one.gives.push_back(*graph::DtypeFromName(dtype.get<std::string>()));
  }
  one.fails = described.value("fails", "");
  one.slots = Take(oracle, absl::StrCat(number, ".slot."), "slot");
  one.results = Take(oracle, absl::StrCat(number, ".result."), "result");
  one.gradients = Take(oracle, absl::StrCat(number, ".gradient."), "slot");
  return one;
}

}  // namespace

std::string OpCase::Text() const {
  std::string text = op();
  for (const graph::Argument& argument : graph.nodes().front().arguments) {
    absl::StrAppend(&text, " ", argument.name);
    if (const auto* equation = std::get_if<std::string>(&argument.operand)) {
      absl::StrAppend(&text, "=", *equation);
    }
  }
  for (const graph::ValueId use : graph.nodes().front().Uses()) {
    absl::StrAppend(&text, " ", graph::ToText(graph.type(use)));
  }
  return text;
}

absl::StatusOr<std::vector<OpCase>> RunOpCases(const std::string& device, graph::Dtype low) {
  AMPD_ASSIGN_OR_RETURN(const Tensors oracle,
                        RunOracle("oracle_autocast", {device, std::string(graph::DtypeName(low))}));
  const at::Tensor& bytes = oracle.at("cases");
  const auto* const text = reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>());
  std::vector<OpCase> cases;
  for (const json& described : json::parse(text, text + bytes.numel())) {
    cases.push_back(CaseOf(described, oracle, cases.size()));
  }
  return cases;
}

}  // namespace ampd::parity
