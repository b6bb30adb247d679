#include "graph/vocabulary.h"

#include <algorithm>
#include <set>

#include "graph/op_table.h"

namespace ampd::graph {
namespace {

// A shape's factors and how many of its dimensions are multiples of the batch size.
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

// The argument of which every element is in the node's result as it was; nothing where there is none.
std::optional<ValueId> ShownWhole(const Graph& model, const Node& node) {
  const OpRow* const row = FindOp(node.op);
  const auto shown = row == nullptr || !row->in_place_of.empty() ? std::nullopt : node.ValueOf(row->views);
  if (!shown.has_value() || node.outputs.size() != 1) {
    return std::nullopt;
  }
  const NumElements before = ElementsOf(model.type(*shown).shape);
  const NumElements after = ElementsOf(model.type(node.outputs[0]).shape);
  return after.num_batches == before.num_batches && after.factor >= before.factor ? shown : std::nullopt;
}

}  // namespace

std::optional<int64_t> VocabularyOf(const Graph& model, std::string_view input) {
  const std::optional<ValueId> value = model.FindInput(input);
  if (!value.has_value()) {
    return std::nullopt;
  }
  std::set<ValueId> wholes = {*value};
  std::optional<int64_t> smallest;
  for (const Node& node : model.nodes()) {
    if (const auto shown = ShownWhole(model, node); shown.has_value() && wholes.contains(*shown)) {
      wholes.insert(node.outputs[0]);
    }
    const auto indices = node.op == "aten.embedding.default" ? node.ValueOf("indices") : std::nullopt;
    if (indices.has_value() && wholes.contains(*indices)) {
      const int64_t rows = model.type(*node.ValueOf("weight")).shape[0].factor();
      smallest = std::min(rows, smallest.value_or(rows));
    }
  }
  return smallest;
}

}  // namespace ampd::graph
