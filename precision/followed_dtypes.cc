#include "precision/followed_dtypes.h"

#include <algorithm>
#include <vector>

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::Node;
using graph::ValueId;

std::vector<ValueId> FloatsReadBy(const Node& node, const graph::Graph& types) {
  std::vector<ValueId> floats = node.Uses();
  std::erase_if(floats, [&types](ValueId use) { return !graph::IsFloatingPoint(types.type(use).dtype); });
  return floats;
}

}  // namespace

bool IsCast(const Node& node) { return node.op == "aten.to.dtype"; }

std::optional<Dtype> FollowedDtypes::FollowedBy(const Node& node) const {
  std::optional<Dtype> narrowest;
  for (const ValueId use : FloatsReadBy(node, types_)) {
    const auto origin = origins_.find(use);
    std::optional<Dtype> dtype = origin == origins_.end() ? types_.type(use).dtype : origin->second.dtype;
    if (dtype == Dtype::kFloat64) {
      dtype = Dtype::kFloat32;
    }
    if (dtype.has_value() && (!narrowest.has_value() || ItemSizeBytes(*dtype) < ItemSizeBytes(*narrowest))) {
      narrowest = dtype;
    }
  }
  return narrowest;
}

bool FollowedDtypes::Yields(ValueId value) const {
  const auto origin = origins_.find(value);
  return origin != origins_.end() && origin->second.yields;
}

void FollowedDtypes::Add(const Node& node, graph::OpClass op_class) {
  const std::vector<ValueId> floats = FloatsReadBy(node, types_);
  const bool is_constant = floats.empty();
  const bool all_yield = std::all_of(floats.begin(), floats.end(), [this](ValueId use) { return Yields(use); });
  const bool any_told =
      std::any_of(floats.begin(), floats.end(), [this](ValueId use) { return origins_.contains(use) && !Yields(use); });
  Origin origin{FollowedBy(node), false};
  if (node.follows_dtype && IsCast(node) && types_.type(node.outputs[0]).shape.empty() &&
      origin.dtype == types_.type(node.outputs[0]).dtype) {
    origin.dtype.reset();  // A 0-dim value that yields to the values with which it is combined.
  }
  if (is_constant || (node.follows_dtype && IsCast(node))) {
    origin.yields = node.follows_dtype && !origin.dtype.has_value();
  } else if (op_class == graph::OpClass::kLower || (!any_told && !all_yield && !node.keeps_fp32)) {
    return;
  } else {
    origin.yields = all_yield && !node.keeps_fp32;
  }
  for (const ValueId output : node.outputs) {
    const Dtype own = types_.type(output).dtype;
    if (graph::IsFloatingPoint(own) && origin.dtype != own) {
      origins_.emplace(output, origin);
    }
  }
}

}  // namespace ampd::precision
