#include "graph/norm_amaxes.h"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "graph/aliases.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

constexpr std::string_view kFindsAmax = "finds_amax";

bool IsFusedNorm(const Node& node) { return node.op == "ampd.layer_norm" || node.op == "ampd.add_layer_norm"; }

bool IsGivenAsTrue(const Node& node, std::string_view argument) {
  const Operand* const operand = node.Find(argument);
  return operand != nullptr && *operand == Operand(true);
}

// Whether the node is an FP8 layer that converts its input to FP8: for the forward product or the weight gradient.
bool QuantizesInput(const Node& node) {
  return node.op == "ampd.linear_fp8" && (IsGivenAsTrue(node, "forward") || IsGivenAsTrue(node, "weight_gradient"));
}

// If the node's result has all elements of an argument, unchanged and in the same dtype, returns that argument.
std::optional<ValueId> ShownAsItIs(const Graph& program, const Node& node) {
  const auto shown = ShownWhole(program, node);
  const bool is_same = shown.has_value() && program.type(*shown).dtype == program.type(node.outputs[0]).dtype;
  return is_same ? shown : std::nullopt;
}

// The FP8 layers that read the results of norms: the result that each such layer reads, by the layer's index.
std::map<size_t, ValueId> ResultsReadInFp8(const Graph& program) {
  std::map<ValueId, ValueId> shown;  // The results of norms by themselves, and by the views of them.
  std::map<size_t, ValueId> read;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (IsFusedNorm(node)) {
      shown.emplace(node.outputs.back(), node.outputs.back());
    } else if (const auto source = ShownAsItIs(program, node); source.has_value() && shown.contains(*source)) {
      shown.emplace(node.outputs[0], shown.at(*source));
    } else if (QuantizesInput(node) && shown.contains(*node.ValueOf("input"))) {
      read.emplace(i, shown.at(*node.ValueOf("input")));
    }
  }
  return read;
}

}  // namespace

Graph WithNormAmaxes(const Graph& program) {
  const std::map<size_t, ValueId> read = ResultsReadInFp8(program);
  Rewriter rewriter(program);
  std::map<ValueId, ValueId> amaxes;  // By the result of the norm.
  for (const auto& [layer, result] : read) {
    if (!amaxes.contains(result)) {
      amaxes.emplace(result, rewriter.AddValue(program.value(result).name + "_amax", {Dtype::kFloat32, {1, 1}}));
    }
  }
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    Node node = program.nodes()[i];
    if (IsFusedNorm(node) && amaxes.contains(node.outputs.back())) {
      node.outputs.push_back(amaxes.at(node.outputs.back()));
      node.arguments.push_back({std::string(kFindsAmax), true});
    } else if (read.contains(i)) {
      node.arguments.push_back({"input_amax", amaxes.at(read.at(i))});
    }
    rewriter.Keep(std::move(node));
  }
  return std::move(rewriter).Finish();
}

std::optional<ValueId> AmaxFoundBy(const Node& node) {
  return IsGivenAsTrue(node, kFindsAmax) ? std::optional(node.outputs.back()) : std::nullopt;
}

}  // namespace ampd::graph
