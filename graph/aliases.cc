#include "graph/aliases.h"

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

std::vector<bool> StatesOf(const Graph& graph) {
  std::vector<bool> is_state(static_cast<size_t>(graph.num_values()));
  for (const auto* states : {&graph.parameters(), &graph.buffers()}) {
    for (const State& state : *states) {
      is_state[static_cast<size_t>(state.value.index)] = true;
    }
  }
  return is_state;
}

}  // namespace ampd::graph
