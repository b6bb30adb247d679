#include "graph/batch_rules.h"

#include <string>
#include <string_view>
#include <variant>

#include "absl/strings/str_cat.h"

namespace ampd::graph {
namespace {

// Whether every dimension except the one with index `without` has size 1.
bool IsOneBeside(const Shape& shape, int64_t batch_size, size_t without) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != without && shape[i].At(batch_size) != 1) {
      return false;
    }
  }
  return true;
}

bool IsTrue(const Node& node, std::string_view argument) {
  const Operand* const operand = node.Find(argument);
  return operand != nullptr && *operand == Operand(true);
}

// Whether a batch norm gets only one value per channel. torch.nn.functional refuses this in _verify_batch_size.
bool HasOneValueAChannel(const Node& node, const Shape& input, int64_t batch_size) {
  return node.op == "aten.batch_norm.default" && IsTrue(node, "training") && input.size() >= 2 &&
         IsOneBeside(input, batch_size, 1);
}

// Whether a group norm gets only one value per group. Like PyTorch's own check, counts the values of all samples of the
// batch together, although the norm treats each sample alone.
bool HasOneValueAGroup(const Node& node, const Shape& input, int64_t batch_size) {
  const Operand* const operand = node.Find("num_groups");
  const auto* const groups = operand == nullptr ? nullptr : std::get_if<int64_t>(operand);
  return node.op == "aten.group_norm.default" && groups != nullptr && *groups > 0 && input.size() >= 2 &&
         IsOneBeside(input, batch_size, 1) && input[1].At(batch_size) == *groups;
}

// The range in words: "2 to 8", "at most 8", "at least 4".
std::string RangeText(const BatchRange& range) {
  if (range.least <= 1) {
    return absl::StrCat("at most ", range.most);
  }
  return range.most == BatchRange().most ? absl::StrCat("at least ", range.least)
                                         : absl::StrCat(range.least, " to ", range.most);
}

}  // namespace

std::string FaultOfBatchRange(const Graph& graph, int64_t batch_size) {
  const BatchRange& range = graph.batch_range();
  return range.least <= batch_size && batch_size <= range.most
             ? ""
             : absl::StrCat("the model was exported for batches of ", RangeText(range), " samples, and not for ",
                            batch_size);
}

std::string FaultOfBatch(const Graph& graph, int64_t batch_size) {
  if (std::string fault = FaultOfBatchRange(graph, batch_size); !fault.empty()) {
    return fault;
  }
  for (const Node& node : graph.nodes()) {
    const auto value = node.ValueOf("input");
    if (!value.has_value()) {
      continue;
    }
    const Shape& input = graph.type(*value).shape;
    const bool is_of_channel = HasOneValueAChannel(node, input, batch_size);
    if (is_of_channel || HasOneValueAGroup(node, input, batch_size)) {
      return absl::StrCat(node.op, node.module_path.empty() ? "" : absl::StrCat(" of ", node.module_path),
                          " has 1 value ", is_of_channel ? "a channel" : "a group", " to normalise in a batch of ",
                          batch_size, batch_size == 1 ? " sample" : " samples",
                          ", and the variance of one value is not a number");
    }
  }
  return "";
}

}  // namespace ampd::graph
