#include "precision/dtype_givers.h"

#include <algorithm>
#include <optional>

#include "graph/op_table.h"

namespace ampd::precision {

using graph::ValueId;

std::vector<ValueId> DtypeGiversOf(const graph::Node& node, const TypeOfValue& type_of) {
  const auto is_float = [&](ValueId value) { return graph::IsFloatingPoint(type_of(value).dtype); };
  const auto is_number = [&](ValueId value) { return type_of(value).shape.empty(); };
  const graph::OpRow* const row = graph::FindOp(node.op);
  if (const auto like = row == nullptr ? std::nullopt : node.ValueOf(row->result_like); like.has_value()) {
    return is_float(*like) ? std::vector<ValueId>{*like} : std::vector<ValueId>();
  }
  std::vector<ValueId> values = node.Uses();
  std::erase_if(values, [&](ValueId use) { return !is_float(use); });
  if (!std::all_of(values.begin(), values.end(), is_number)) {
    std::erase_if(values, is_number);
  }
  return values;
}

bool ComputesInFloat64(const graph::Node& node, const TypeOfValue& type_of) {
  const std::vector<ValueId> givers = DtypeGiversOf(node, type_of);
  return std::any_of(givers.begin(), givers.end(),
                     [&](ValueId value) { return type_of(value).dtype == graph::Dtype::kFloat64; });
}

}  // namespace ampd::precision
