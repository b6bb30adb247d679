#include "graph/aliases.h"

#include <algorithm>
#include <numeric>

#include "graph/modes.h"
#include "graph/op_table.h"

namespace ampd::graph {

Aliases::Aliases(const Graph& graph) : memory_(static_cast<size_t>(graph.num_values())) {
  std::iota(memory_.begin(), memory_.end(), 0);
  for (const Node& node : graph.nodes()) {
    const OpRow* row = FindOp(node.op);
    auto shown = row == nullptr ? std::nullopt : node.ValueOf(row->views);
    if (!shown.has_value()) {
      shown = GivenBack(node);
    }
    for (ValueId output : node.outputs) {
      memory_[static_cast<size_t>(output.index)] = shown.has_value() ? Of(*shown) : output.index;
    }
  }
}

std::optional<ValueId> GivenBack(const Node& node) {
  if (node.op != "aten.dropout.default" && node.op != "aten.feature_dropout.default") {
    return std::nullopt;
  }
  const Operand* const dropped = node.Find("p");
  const bool drops = DrawsRandomNumbers(node) && dropped != nullptr && *dropped != Operand(0.0);
  return drops ? std::nullopt : node.ValueOf("input");
}

std::optional<ValueId> WrittenBy(const Node& node) {
  const OpRow* row = FindOp(node.op);
  return row == nullptr || row->in_place_of.empty() ? std::nullopt : node.ValueOf("self");
}

bool IsState(const Graph& graph, int value) {
  const auto is = [value](const State& state) { return state.value.index == value; };
  return std::any_of(graph.parameters().begin(), graph.parameters().end(), is) ||
         std::any_of(graph.buffers().begin(), graph.buffers().end(), is);
}

}  // namespace ampd::graph
