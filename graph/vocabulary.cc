#include "graph/vocabulary.h"

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "graph/aliases.h"
#include "graph/dtype.h"

namespace ampd::graph {
namespace {

// The input, and all values that contain every element of it, unchanged, in another shape.
std::set<ValueId> WholesOf(const Graph& model, ValueId input) {
  std::set<ValueId> wholes = {input};
  for (const Node& node : model.nodes()) {
    if (const auto shown = ShownWhole(model, node); shown.has_value() && wholes.contains(*shown)) {
      wholes.insert(node.outputs[0]);
    }
  }
  return wholes;
}

bool IsCrossEntropy(const Node& node) {
  return node.op == "aten.cross_entropy_loss.default" || node.op == "aten.nll_loss_nd.default";
}

// The label that a cross entropy ignores: its argument ignore_index, or the op's default if the node does not give it.
int64_t IgnoredBy(const Node& node) {
  constexpr int64_t kDefault = -100;
  const Operand* const given = node.Find("ignore_index");
  const auto* const number = given == nullptr ? nullptr : std::get_if<int64_t>(given);
  return number == nullptr ? kDefault : *number;
}

// Whether a cross entropy returns the mean over the labels. That is the op's default.
bool IsMean(const Node& node) {
  constexpr int64_t kMean = 1;
  const Operand* const given = node.Find("reduction");
  const auto* const number = given == nullptr ? nullptr : std::get_if<int64_t>(given);
  return number == nullptr || *number == kMean;
}

// Size of dimension `dim` of a tensor, counted from the end if negative; nothing if it depends on the batch.
std::optional<int64_t> ExtentOf(const Graph& model, std::optional<ValueId> tensor, int64_t dim) {
  if (!tensor.has_value()) {
    return std::nullopt;
  }
  const Shape& shape = model.type(*tensor).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t place = dim < 0 ? dim + rank : dim;
  const bool is_known = place >= 0 && place < rank && !shape[static_cast<size_t>(place)].is_batch();
  return is_known ? std::optional(shape[static_cast<size_t>(place)].factor()) : std::nullopt;
}

// The value that a node uses as indices, and the range of the indices.
struct Choice {
  std::optional<ValueId> by;
  std::optional<int64_t> num_numbers;
  std::optional<int64_t> ignored;
};

Choice ChoiceOf(const Graph& model, const Node& node) {
  if (node.op == "aten.embedding.default") {
    return {node.ValueOf("indices"), ExtentOf(model, node.ValueOf("weight"), 0), std::nullopt};
  }
  if (node.op == "aten.gather.default") {
    const Operand* const dim = node.Find("dim");
    const auto* const place = dim == nullptr ? nullptr : std::get_if<int64_t>(dim);
    return {node.ValueOf("index"), place == nullptr ? std::nullopt : ExtentOf(model, node.ValueOf("self"), *place),
            std::nullopt};
  }
  if (IsCrossEntropy(node)) {
    const auto scores = node.ValueOf("self");
    const bool is_one_sample = scores.has_value() && model.type(*scores).shape.size() == 1;
    return {node.ValueOf("target"), ExtentOf(model, scores, is_one_sample ? 0 : 1), IgnoredBy(node)};
  }
  return {};
}

}  // namespace

std::optional<NumberRange> NumbersOf(const Graph& model, std::string_view input) {
  const std::optional<ValueId> value = model.FindInput(input);
  if (!value.has_value() || IsFloatingPoint(model.type(*value).dtype)) {
    return std::nullopt;
  }
  const std::set<ValueId> wholes = WholesOf(model, *value);
  std::optional<NumberRange> range;
  for (const Node& node : model.nodes()) {
    const Choice choice = ChoiceOf(model, node);
    if (!choice.by.has_value() || !choice.num_numbers.has_value() || !wholes.contains(*choice.by)) {
      continue;
    }
    const bool ignores_alike = !range.has_value() || range->ignored == choice.ignored;
    range = NumberRange{std::min(*choice.num_numbers, range.has_value() ? range->num_numbers : *choice.num_numbers),
                        ignores_alike ? choice.ignored : std::nullopt};
  }
  return range;
}

std::optional<int64_t> VocabularyOf(const Graph& model, std::string_view input) {
  const auto range = NumbersOf(model, input);
  return range.has_value() ? std::optional(range->num_numbers) : std::nullopt;
}

std::optional<int64_t> IgnoredLabelOf(const Graph& model) {
  const auto labels = model.FindInput("labels");
  if (!labels.has_value() || IsFloatingPoint(model.type(*labels).dtype)) {
    return std::nullopt;
  }
  std::set<ValueId> made_of_labels = {*labels};
  for (const Node& node : model.nodes()) {
    const std::vector<ValueId> uses = node.Uses();
    if (const auto target = node.ValueOf("target");
        IsCrossEntropy(node) && IsMean(node) && target.has_value() && made_of_labels.contains(*target)) {
      return IgnoredBy(node);
    }
    if (std::any_of(uses.begin(), uses.end(), [&](ValueId use) { return made_of_labels.contains(use); })) {
      made_of_labels.insert(node.outputs.begin(), node.outputs.end());
    }
  }
  return std::nullopt;
}

}  // namespace ampd::graph
