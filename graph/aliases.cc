#include "graph/aliases.h"

#include <numeric>

#include "graph/modes.h"
#include "graph/op_table.h"

namespace ampd::graph {
namespace {

constexpr char kCast[] = "aten.to.dtype";

// The number of elements of a tensor, as `factor` times the batch size to the power of `num_batches`.
struct NumElements {
  int64_t factor = 1;
  int num_batches = 0;
};

NumElements ElementsOf(const Shape& shape) {
  NumElements elements;
  for (const Dim& dim : shape) {
    elements.factor *= dim.factor();
    elements.num_batches += dim.is_batch() ? 1 : 0;
  }
  return elements;
}

bool IsCopyingCast(const Graph& graph, const Node& node) {
  const auto self = node.op == kCast ? node.ValueOf("self") : std::nullopt;
  return CopiesByRequest(node) ||
         (self.has_value() && node.outputs.size() == 1 && graph.type(*self).dtype != graph.type(node.outputs[0]).dtype);
}

}  // namespace

Aliases::Aliases(const Graph& graph) : memory_(static_cast<size_t>(graph.num_values())) {
  std::iota(memory_.begin(), memory_.end(), 0);
  for (const Node& node : graph.nodes()) {
    const OpRow* row = FindOp(node.op);
    auto shown = row == nullptr || IsCopyingCast(graph, node) ? std::nullopt : node.ValueOf(row->views);
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
  const bool drops =
      DrawsRandomNumbers(node) && dropped != nullptr && *dropped != Operand(0.0) && *dropped != Operand(int64_t{0});
  return drops ? std::nullopt : node.ValueOf("input");
}

bool CopiesByRequest(const Node& node) {
  const Operand* const copy = node.op == kCast ? node.Find("copy") : nullptr;
  return copy != nullptr && *copy == Operand(true);
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

std::optional<ValueId> ShownWhole(const Graph& graph, const Node& node) {
  const OpRow* const row = FindOp(node.op);
  const auto shown = row == nullptr || !row->in_place_of.empty() ? std::nullopt : node.ValueOf(row->views);
  if (!shown.has_value() || node.outputs.size() != 1) {
    return std::nullopt;
  }
  const NumElements before = ElementsOf(graph.type(*shown).shape);
  const NumElements after = ElementsOf(graph.type(node.outputs[0]).shape);
  return after.num_batches == before.num_batches && after.factor >= before.factor ? shown : std::nullopt;
}

}  // namespace ampd::graph
