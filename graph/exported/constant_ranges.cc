#include "graph/exported/constant_ranges.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <variant>

#include "absl/strings/str_cat.h"
#include "graph/dtype.h"

namespace ampd::graph {
namespace {

// The smallest and the largest number in a tensor of integers. The tensor contains both.
struct Range {
  int64_t least = 0;
  int64_t most = 0;
};
using Ranges = std::map<ValueId, Range>;

// A range with larger numbers counts as unknown, so that sums can't overflow.
constexpr int64_t kMaxNumber = int64_t{1} << 40;

bool IsSmall(int64_t number) { return -kMaxNumber <= number && number <= kMaxNumber; }

std::optional<int64_t> Whole(const Node& node, std::string_view argument, std::optional<int64_t> missing = {}) {
  const Operand* const operand = node.Find(argument);
  if (operand == nullptr) {
    return missing;
  }
  const auto* const number = std::get_if<int64_t>(operand);
  return number == nullptr || !IsSmall(*number) ? std::nullopt : std::optional(*number);
}

std::optional<Range> Positions(const Node& node) {
  const auto start = Whole(node, "start", 0);
  const auto end = Whole(node, "end");
  return start.has_value() && end.has_value() && *start < *end ? std::optional(Range{*start, *end - 1}) : std::nullopt;
}

// The range of an argument that is a number, or a tensor whose range is known.
std::optional<Range> RangeOf(const Node& node, std::string_view argument, const Ranges& ranges) {
  if (const auto value = node.ValueOf(argument); value.has_value()) {
    const auto found = ranges.find(*value);
    return found == ranges.end() ? std::nullopt : std::optional(found->second);
  }
  const auto number = Whole(node, argument);
  return number.has_value() ? std::optional(Range{*number, *number}) : std::nullopt;
}

// Returns the exact range of a tensor plus a number (`sign` 1) or minus a number (`sign` -1). Returns nothing for the
// sum of two tensors: their largest elements may be at different positions, so the sum of these elements would only be
// a bound.
std::optional<Range> Sum(const Node& node, const Ranges& ranges, int64_t sign) {
  const auto self = RangeOf(node, "self", ranges);
  const auto other = RangeOf(node, "other", ranges);
  const auto factor = Whole(node, "alpha", 1);
  if (!self.has_value() || !other.has_value() || factor != 1 || other->least != other->most) {
    return std::nullopt;
  }
  const Range sum{self->least + sign * other->least, self->most + sign * other->most};
  return IsSmall(sum.least) && IsSmall(sum.most) ? std::optional(sum) : std::nullopt;
}

// Whether the result of the op consists of the elements of its argument, each at least once, and of nothing else.
bool ShowsAll(std::string_view op) {
  static constexpr std::string_view kOps[] = {
      "aten.clone.default",  "aten.contiguous.default", "aten.expand.default", "aten.expand_as.default",
      "aten.repeat.default", "aten.reshape.default",    "aten.squeeze.dim",    "aten.to.dtype",
      "aten.transpose.int",  "aten.unsqueeze.default",  "aten.view.default",   "aten.flatten.using_ints",
      "aten.permute.default"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

std::optional<Range> RangeOfResult(const Node& node, const Ranges& ranges) {
  if (node.op == "aten.arange.default" || node.op == "aten.arange.start") {
    return Positions(node);
  }
  if (node.op == "aten.add.Tensor") {
    return Sum(node, ranges, 1);
  }
  if (node.op == "aten.sub.Tensor") {
    return Sum(node, ranges, -1);
  }
  return ShowsAll(node.op) ? RangeOf(node, "self", ranges) : std::nullopt;
}

// Whether tensors of this type can hold all numbers of the range. A cast to a type that can't, such as bool, changes
// the numbers.
bool Holds(Dtype dtype, const Range& range) {
  using Ints = std::numeric_limits<int32_t>;
  return dtype == Dtype::kInt64 || (dtype == Dtype::kInt32 && Ints::min() <= range.least && range.most <= Ints::max());
}

}  // namespace

std::string FaultOfConstantIndices(const Graph& graph) {
  Ranges ranges;
  for (const Node& node : graph.nodes()) {
    if (const auto range = RangeOfResult(node, ranges);
        range.has_value() && node.outputs.size() == 1 && Holds(graph.type(node.outputs[0]).dtype, *range)) {
      ranges[node.outputs[0]] = *range;
    }
    const auto table = node.op == "aten.embedding.default" ? node.ValueOf("weight") : std::nullopt;
    const auto chosen = table.has_value() ? RangeOf(node, "indices", ranges) : std::nullopt;
    if (!chosen.has_value() || graph.type(*table).shape.empty()) {
      continue;
    }
    const int64_t rows = graph.type(*table).shape[0].factor();
    if (chosen->least < 0 || chosen->most >= rows) {
      return absl::StrCat(node.op, node.module_path.empty() ? "" : absl::StrCat(" of ", node.module_path),
                          " chooses row ", chosen->least < 0 ? chosen->least : chosen->most, " of a table of ", rows,
                          " rows; where these are positions, the texts are too long for the model");
    }
  }
  return "";
}

}  // namespace ampd::graph
