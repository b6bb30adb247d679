#include "graph/determinism.h"

#include <algorithm>
#include <cstddef>
#include <variant>

namespace ampd::graph {
namespace {

constexpr size_t kImageSizes = 2;  // Height and width, which are the last dimensions.

std::vector<int64_t> IntsOf(const Node& node, std::string_view argument) {
  const Operand* const given = node.Find(argument);
  const auto* const list = given == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(given);
  return list == nullptr ? std::vector<int64_t>() : *list;
}

bool IsAdaptivePool(const Node& node) { return node.op == "aten.adaptive_avg_pool2d.default"; }

// Whether the node's pool has one pixel as its output. LibTorch computes such a pool as a mean, which is deterministic.
bool PoolsToOnePixel(const Node& node) {
  const std::vector<int64_t> output = IntsOf(node, "output_size");
  return std::all_of(output.begin(), output.end(), [](int64_t size) { return size == 1; });
}

// Whether the node is a cross entropy of scores that have dimensions beside those of samples and classes, such as
// pixels. Returns false for a target of class probabilities, for which LibTorch uses a deterministic algorithm.
bool IsLossOverPixels(const Graph& graph, const Node& node) {
  const bool is_loss = node.op == "aten.cross_entropy_loss.default" || node.op == "aten.nll_loss_nd.default";
  return is_loss && graph.type(*node.ValueOf("self")).shape.size() > 2 &&
         !IsFloatingPoint(graph.type(*node.ValueOf("target")).dtype);
}

// Describes the padding for people if its backward pass is not deterministic on a GPU; otherwise returns an empty text.
std::string NondeterministicPadding(const Node& node) {
  const Operand* const given = node.op == "aten.pad.default" ? node.Find("mode") : nullptr;
  const auto* const mode = given == nullptr ? nullptr : std::get_if<std::string>(given);
  if (mode == nullptr) {
    return "";
  }
  const size_t num_padded = IntsOf(node, "pad").size() / 2;  // The list has two numbers for each padded dimension.
  if (*mode == "replicate") {
    return "a padding that repeats the border";
  }
  return *mode == "reflect" && num_padded != kImageSizes ? "a padding that mirrors one or three dimensions" : "";
}

}  // namespace

std::optional<std::vector<int64_t>> EqualWindows(const Graph& graph, const Node& node) {
  if (!IsAdaptivePool(node) || PoolsToOnePixel(node)) {
    return std::nullopt;
  }
  const Shape& input = graph.type(*node.ValueOf("self")).shape;
  const std::vector<int64_t> output = IntsOf(node, "output_size");
  if (output.size() != kImageSizes || input.size() < kImageSizes) {
    return std::nullopt;
  }
  std::vector<int64_t> windows;
  for (size_t i = 0; i < kImageSizes; ++i) {
    const Dim& size = input[input.size() - kImageSizes + i];
    if (size.is_batch() || output[i] < 1 || size.factor() % output[i] != 0) {
      return std::nullopt;
    }
    windows.push_back(size.factor() / output[i]);
  }
  return windows;
}

std::optional<NondeterministicOp> FindNondeterministicOp(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    std::string what = NondeterministicPadding(node);
    if (IsAdaptivePool(node) && !PoolsToOnePixel(node) && !EqualWindows(graph, node).has_value()) {
      what = "an adaptive pool with windows of different sizes";
    } else if (IsLossOverPixels(graph, node)) {
      what = "a loss over the classes of pixels";
    }
    if (!what.empty()) {
      return NondeterministicOp{node.op, node.module_path, what};
    }
  }
  return std::nullopt;
}

}  // namespace ampd::graph
