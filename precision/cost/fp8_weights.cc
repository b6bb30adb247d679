#include "precision/cost/fp8_weights.h"

#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "graph/op_table.h"

namespace ampd::precision {
namespace {

using graph::Node;
using graph::Operand;
using graph::ValueId;

// Whether the node's results are views of a value in `shown`.
bool ShowsOneOf(const graph::Graph& program, const Node& node, const std::set<ValueId>& shown) {
  const graph::OpRow* const row = graph::FindOp(node.op);
  if (row == nullptr || row->views.empty()) {
    return false;
  }
  const auto source = node.ValueOf(row->views);
  return source.has_value() && shown.contains(*source) &&
         program.type(*source).dtype == program.type(node.outputs[0]).dtype;
}

bool IsTrue(const Node& node, std::string_view argument) {
  const Operand* const operand = node.Find(argument);
  return operand != nullptr && *operand == Operand(true);
}

int64_t Elements(const graph::TensorType& type) {
  int64_t elements = 1;
  for (const graph::Dim& dim : type.shape) {
    elements *= dim.factor();
  }
  return elements;
}

}  // namespace

int64_t Fp8WeightBytes(const graph::Graph& program) {
  std::set<ValueId> parameters;  // Parameters, and views of them.
  for (const graph::State& parameter : program.parameters()) {
    parameters.insert(parameter.value);
  }
  std::set<std::pair<int64_t, ValueId>> counted;  // Layers with their weights. A layer may run more than once.
  int64_t bytes = 0;
  for (const Node& node : program.nodes()) {
    if (ShowsOneOf(program, node, parameters)) {
      parameters.insert(node.outputs.begin(), node.outputs.end());
    }
    const auto weight = node.ValueOf("weight");
    if (node.op != "ampd.linear_fp8" || !weight.has_value() || !parameters.contains(*weight)) {
      continue;
    }
    const int64_t layer = std::get<int64_t>(*node.Find("layer"));
    if (counted.emplace(layer, *weight).second) {
      const int num_forms = (IsTrue(node, "forward") ? 1 : 0) + (IsTrue(node, "input_gradient") ? 1 : 0);
      bytes += num_forms * Elements(program.type(*weight));
    }
  }
  return bytes;
}

}  // namespace ampd::precision
