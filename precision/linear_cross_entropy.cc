#include "precision/linear_cross_entropy.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/rewriter.h"

namespace ampd::precision {
namespace {

using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::ValueId;

// Ops that keep the order of a contiguous tensor's elements.
constexpr std::string_view kReshapes[] = {"aten.view.default", "aten.reshape.default", "aten.flatten.using_ints",
                                          "aten.contiguous.default"};

bool IsReshape(const Node& node) {
  return std::find(std::begin(kReshapes), std::end(kReshapes), node.op) != std::end(kReshapes);
}

// Ops that convert a tensor to another dtype.
constexpr std::string_view kCasts[] = {"aten.to.dtype", "aten._to_copy.default"};

bool IsCast(const Node& node) { return std::find(std::begin(kCasts), std::end(kCasts), node.op) != std::end(kCasts); }

// The nodes between a linear layer and its cross entropy, by their indices.
struct Chain {
  size_t linear = 0;
  std::vector<size_t> between;
};

class Chains {
 public:
  explicit Chains(const Graph& program) : program_(program) {
    for (size_t i = 0; i < program.nodes().size(); ++i) {
      for (const ValueId output : program.nodes()[i].outputs) {
        made_by_[output] = i;
      }
      for (const ValueId use : program.nodes()[i].Uses()) {
        ++num_reads_[use];
      }
    }
    for (const graph::Output& output : program.outputs()) {
      ++num_reads_[output.value];
    }
  }

  // The chain that ends in a node; nothing if the node is not a cross entropy, or its logits do not allow the fusion.
  std::optional<Chain> EndingIn(const Node& loss) const {
    if (loss.op != "ampd.cross_entropy" || loss.without_gradient) {
      return std::nullopt;
    }
    Chain chain;
    for (ValueId value = *loss.ValueOf("self");;) {
      const auto maker = made_by_.find(value);
      if (maker == made_by_.end() || num_reads_.at(value) != 1) {
        return std::nullopt;
      }
      const Node& node = program_.nodes()[maker->second];
      if (IsLinearTo(node, loss)) {
        chain.linear = maker->second;
        return chain;
      }
      if ((!IsReshape(node) && !WidensToFp32(node)) || node.without_gradient) {
        return std::nullopt;
      }
      chain.between.push_back(maker->second);
      value = *node.ValueOf("self");
    }
  }

 private:
  // Whether the node casts logits to fp32, which changes no number: the loss computes in fp32 anyway, and the gradient
  // is rounded once, by the loss instead of by the cast.
  bool WidensToFp32(const Node& node) const {
    if (!IsCast(node) || program_.type(node.outputs[0]).dtype != graph::Dtype::kFloat32) {
      return false;
    }
    const graph::Dtype before = program_.type(*node.ValueOf("self")).dtype;
    return graph::IsFloatingPoint(before) && before != graph::Dtype::kFloat64;
  }

  // Whether the node is a linear layer in a single dtype, whose results are the logits of the loss: one for each class.
  bool IsLinearTo(const Node& node, const Node& loss) const {
    if (node.op != "aten.linear.default" || node.without_gradient) {
      return false;
    }
    const graph::TensorType& logits = program_.type(node.outputs[0]);
    const std::vector<ValueId> uses = node.Uses();
    return logits.shape.size() >= 2 && logits.shape.back() == program_.type(*loss.ValueOf("self")).shape.back() &&
           std::all_of(uses.begin(), uses.end(), [&](ValueId use) { return program_.type(use).dtype == logits.dtype; });
  }

  const Graph& program_;
  std::map<ValueId, size_t> made_by_;
  std::map<ValueId, int> num_reads_;
};

Operand GivenOperand(const Node& node, std::string_view argument) {
  const Operand* const operand = node.Find(argument);
  return operand == nullptr ? Operand() : *operand;
}

Node Fused(const Node& linear, const Node& loss) {
  Node node = loss;
  node.op = "ampd.linear_cross_entropy";
  node.arguments = {{"input", GivenOperand(linear, "input")},
                    {"weight", GivenOperand(linear, "weight")},
                    {"bias", GivenOperand(linear, "bias")},
                    {"target", GivenOperand(loss, "target")},
                    {"reduction", GivenOperand(loss, "reduction")}};
  node.module_path = linear.module_path;
  return node;
}

}  // namespace

Graph WithLinearCrossEntropies(const Graph& program) {
  const Chains chains(program);
  std::map<size_t, Chain> by_loss;
  std::set<size_t> replaced;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (auto chain = chains.EndingIn(program.nodes()[i]); chain.has_value()) {
      replaced.insert(chain->linear);
      replaced.insert(chain->between.begin(), chain->between.end());
      by_loss.emplace(i, *std::move(chain));
    }
  }
  graph::Rewriter rewriter(program);
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (const auto chain = by_loss.find(i); chain != by_loss.end()) {
      rewriter.Keep(Fused(program.nodes()[chain->second.linear], node));
    } else if (!replaced.contains(i)) {
      rewriter.Keep(node);
    }
  }
  return std::move(rewriter).Finish();
}

}  // namespace ampd::precision
