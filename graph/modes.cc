#include "graph/modes.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace ampd::graph {

bool HasModes(const OpRow& row, const Node& node) {
  return !row.training_argument.empty() &&
         std::all_of(row.writes.begin(), row.writes.end(),
                     [&node](std::string_view statistic) { return node.ValueOf(statistic).has_value(); });
}

bool Trains(const OpRow& row, const Node& node) {
  const Operand* const training = HasModes(row, node) ? node.Find(row.training_argument) : nullptr;
  return training != nullptr && *training == Operand(true);
}

bool DrawsRandomNumbers(const Node& node) {
  const OpRow* const row = FindOp(ComputedBy(node.op));
  if (row == nullptr || !row->random || (!row->training_argument.empty() && !Trains(*row, node))) {
    return false;
  }
  if (row->dropout_argument.empty()) {
    return true;
  }
  const Operand* const dropped = node.Find(row->dropout_argument);
  return dropped != nullptr && *dropped != Operand(0.0) && *dropped != Operand(int64_t{0});
}

Node ForEvaluation(Node node) {
  const OpRow* const row = FindOp(ComputedBy(node.op));
  if (row == nullptr) {
    return node;
  }
  if (HasModes(*row, node)) {
    node.Set(row->training_argument, false);
  } else if (!row->dropout_argument.empty()) {
    std::erase_if(node.arguments, [&](const Argument& argument) { return argument.name == row->dropout_argument; });
  }
  return node;
}

}  // namespace ampd::graph
