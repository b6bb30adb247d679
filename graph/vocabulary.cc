#include "graph/vocabulary.h"

#include <algorithm>

namespace ampd::graph {

std::optional<int64_t> VocabularyOf(const Graph& model, std::string_view input) {
  const std::optional<ValueId> value = model.FindInput(input);
  std::optional<int64_t> smallest;
  for (const Node& node : model.nodes()) {
    if (value.has_value() && node.op == "aten.embedding.default" && node.ValueOf("indices") == value) {
      const int64_t rows = model.type(*node.ValueOf("weight")).shape[0].factor();
      smallest = std::min(rows, smallest.value_or(rows));
    }
  }
  return smallest;
}

}  // namespace ampd::graph
