#include "graph/print.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::graph {
namespace {

std::string DimText(const Dim& dim) {
  if (!dim.is_batch()) {
    return absl::StrCat(dim.factor());
  }
  return dim.factor() == 1 ? "B" : absl::StrCat(dim.factor(), "*B");
}

std::string Reference(const Graph& graph, ValueId id) { return absl::StrCat("%", graph.value(id).name); }

std::string Definition(const Graph& graph, ValueId id) {
  return absl::StrCat(Reference(graph, id), ": ", ToText(graph.type(id)));
}

template <typename List, typename Print>
std::string ListText(const List& list, Print print) {
  return absl::StrCat(
      "[", absl::StrJoin(list, ", ", [&](std::string* out, const auto& item) { absl::StrAppend(out, print(item)); }),
      "]");
}

struct OperandText {
  const Graph& graph;

  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(ValueId id) const { return Reference(graph, id); }
  std::string operator()(int64_t number) const { return absl::StrCat(number); }
  std::string operator()(double number) const {
    // The decimal point distinguishes a double from an integer.
    const std::string text = absl::StrCat(number);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  std::string operator()(bool flag) const { return flag ? "True" : "False"; }
  std::string operator()(Dtype dtype) const { return std::string(DtypeName(dtype)); }
  std::string operator()(const std::string& text) const { return absl::StrCat("\"", text, "\""); }
  std::string operator()(const std::vector<int64_t>& list) const { return ListText(list, *this); }
  std::string operator()(const std::vector<double>& list) const { return ListText(list, *this); }
  std::string operator()(const Shape& sizes) const { return ListText(sizes, DimText); }
  std::string operator()(const std::vector<std::optional<ValueId>>& list) const {
    return ListText(list, [this](const auto& id) { return id.has_value() ? Reference(graph, *id) : "None"; });
  }
};

std::string InitializerText(const Initializer& initializer) {
  switch (initializer.kind) {
    case Initializer::Kind::kConstant:
      return absl::StrCat("constant(", initializer.value, ")");
    case Initializer::Kind::kUniform:
      return absl::StrCat("uniform(", initializer.bound, ")");
    case Initializer::Kind::kNormal:
      return absl::StrCat("normal(", initializer.bound,
                          initializer.value == 0 ? "" : absl::StrCat(", mean=", initializer.value), ")");
    case Initializer::Kind::kKaimingUniform:
      return absl::StrCat("kaiming_uniform(fan_in=", initializer.fan_in, ")");
  }
  return "unknown";
}

std::string StateText(const Graph& graph, std::string_view kind, const State& state) {
  return absl::StrCat(std::string(kind), " ", Definition(graph, state.value), " ", InitializerText(state.initializer));
}

std::string NodeText(const Graph& graph, const Node& node) {
  const auto outputs = absl::StrJoin(
      node.outputs, ", ", [&](std::string* out, ValueId id) { absl::StrAppend(out, Definition(graph, id)); });
  const auto arguments = absl::StrJoin(node.arguments, ", ", [&](std::string* out, const Argument& argument) {
    absl::StrAppend(out, argument.name, "=", std::visit(OperandText{graph}, argument.operand));
  });
  std::string path = node.module_path.empty() ? "" : absl::StrCat("  # ", node.module_path);
  if (!node.segment.empty()) {
    absl::StrAppend(&path, path.empty() ? "  #" : "", " (segment ", node.segment, ")");
  }
  if (node.keeps_fp32) {
    absl::StrAppend(&path, path.empty() ? "  #" : "", " (fp32)");
  }
  if (node.follows_dtype) {
    absl::StrAppend(&path, path.empty() ? "  #" : "", " (follows)");
  }
  if (node.is_written_in_place) {
    absl::StrAppend(&path, path.empty() ? "  #" : "", " (in place)");
  }
  return absl::StrCat(outputs, outputs.empty() ? "" : " = ", node.op, "(", arguments, ")", path);
}

}  // namespace

std::string ToText(const TensorType& type) {
  return absl::StrCat(std::string(DtypeName(type.dtype)), ListText(type.shape, DimText));
}

std::string ToText(const Graph& graph) {
  std::string text = absl::StrCat("graph ", graph.name(), "\n");
  for (ValueId input : graph.inputs()) {
    absl::StrAppend(&text, "input ", Definition(graph, input), "\n");
  }
  for (const State& parameter : graph.parameters()) {
    absl::StrAppend(&text, StateText(graph, "parameter", parameter), "\n");
  }
  for (const State& buffer : graph.buffers()) {
    absl::StrAppend(&text, StateText(graph, "buffer", buffer), "\n");
  }
  for (const Node& node : graph.nodes()) {
    absl::StrAppend(&text, NodeText(graph, node), "\n");
  }
  for (const Output& output : graph.outputs()) {
    absl::StrAppend(&text, "output ", output.name, " = ", Reference(graph, output.value), "\n");
  }
  return text;
}

}  // namespace ampd::graph
