#include "graph/fused_batch_norms.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

constexpr std::string_view kVectors[] = {"weight", "bias", "running_mean", "running_var"};
constexpr const char* kNumResults = "num_results";
constexpr std::string_view kStatistics[] = {"running_mean", "running_var"};

// How often a value is read, and the first and the last node that read it. If the program returns the value, `count` is
// one higher.
struct ReadCounts {
  int count = 0;
  size_t first = 0;
  size_t last = 0;
};

std::vector<ReadCounts> ReadsOf(const Graph& program) {
  std::vector<ReadCounts> reads(static_cast<size_t>(program.num_values()));
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    for (const ValueId use : program.nodes()[i].Uses()) {
      ReadCounts& of_value = reads[static_cast<size_t>(use.index)];
      of_value = {of_value.count + 1, of_value.count == 0 ? i : of_value.first, i};
    }
  }
  for (const Output& output : program.outputs()) {
    ++reads[static_cast<size_t>(output.value.index)].count;
  }
  return reads;
}

bool IsMissing(const Node& node, std::string_view argument) {
  const Operand* const operand = node.Find(argument);
  return operand == nullptr || *operand == Operand();
}

bool IsPlainAddition(const Node& node) {
  const Operand* const factor = node.Find("alpha");
  const bool is_unscaled = factor == nullptr || *factor == Operand(int64_t{1}) || *factor == Operand(1.0);
  return node.op == "aten.add.Tensor" && is_unscaled;
}

// The nodes that are fused into one. `residual`: the value that the addition adds; nothing if there is no addition.
struct Chain {
  size_t norm = 0;
  size_t last = 0;
  std::vector<size_t> nodes;
  std::optional<ValueId> residual;
  bool relu = false;
};

class Fusion {
 public:
  explicit Fusion(const Graph& program)
      : program_(program), reads_(ReadsOf(program)), is_taken_(program.nodes().size(), false) {}

  Graph Run() && {
    std::vector<std::optional<Chain>> ends(program_.nodes().size());
    for (size_t i = 0; i < program_.nodes().size(); ++i) {
      if (IsFusable(program_.nodes()[i])) {
        Chain chain = ChainFrom(i);
        for (const size_t node : chain.nodes) {
          is_taken_[node] = true;
        }
        ends[chain.last] = std::move(chain);
      }
    }
    Rewriter rewriter(program_);
    for (size_t i = 0; i < program_.nodes().size(); ++i) {
      if (ends[i].has_value()) {
        rewriter.Keep(Fused(*ends[i]));
      } else if (!is_taken_[i]) {
        rewriter.Keep(program_.nodes()[i]);
      }
    }
    return std::move(rewriter).Finish();
  }

 private:
  const TensorType& TypeOf(ValueId value) const { return program_.type(value); }
  const ReadCounts& ReadsOfValue(ValueId value) const { return reads_[static_cast<size_t>(value.index)]; }

  bool IsFusable(const Node& node) const {
    const Operand* const training = node.Find("training");
    const auto input = node.ValueOf("input");
    if (node.op != "aten.batch_norm.default" || node.without_gradient || training == nullptr ||
        *training != Operand(true) || !input.has_value()) {
      return false;
    }
    const bool vectors_are_fp32 = std::all_of(std::begin(kVectors), std::end(kVectors), [&](std::string_view name) {
      const auto value = node.ValueOf(name);
      return value.has_value() ? TypeOf(*value).dtype == Dtype::kFloat32 : IsMissing(node, name);
    });
    // The fused node takes the place of the last op that it includes, and other nodes may lie between the norm and that
    // op. So no other node may read or write the norm's statistics.
    const bool owns_statistics =
        std::all_of(std::begin(kStatistics), std::end(kStatistics), [&](std::string_view name) {
          const auto value = node.ValueOf(name);
          return !value.has_value() || ReadsOfValue(*value).count == 1;
        });
    const TensorType& type = TypeOf(*input);
    const bool is_known =
        type.dtype == Dtype::kFloat32 || type.dtype == Dtype::kBFloat16 || type.dtype == Dtype::kFloat16;
    return vectors_are_fp32 && owns_statistics && is_known && type.shape.size() == 4 && TypeOf(node.outputs[0]) == type;
  }

  Chain ChainFrom(size_t norm) const {
    Chain chain = {.norm = norm, .last = norm, .nodes = {norm}, .residual = {}};
    if (const auto next = OnlyReader(chain.last); next.has_value()) {
      if (const auto residual = ResidualOf(program_.nodes()[*next], chain.last); residual.has_value()) {
        Append(*next, chain);
        chain.residual = residual;
      }
    }
    if (const auto next = OnlyReader(chain.last);
        next.has_value() && program_.nodes()[*next].op == "aten.relu.default") {
      Append(*next, chain);
      chain.relu = true;
    }
    return chain;
  }

  static void Append(size_t node, Chain& chain) {
    chain.nodes.push_back(node);
    chain.last = node;
  }

  // The node that is the only reader of the result of `node`; nothing if there is no such reader, or if the two nodes
  // may not be fused.
  std::optional<size_t> OnlyReader(size_t node) const {
    const Node& before = program_.nodes()[node];
    const ReadCounts& reads = ReadsOfValue(before.outputs[0]);
    if (reads.count != 1 || reads.last <= node) {
      return std::nullopt;
    }
    const Node& reader = program_.nodes()[reads.last];
    const bool suits = !is_taken_[reads.last] && !reader.without_gradient && reader.segment == before.segment &&
                       reader.outputs.size() == 1 && TypeOf(reader.outputs[0]) == TypeOf(before.outputs[0]);
    return suits ? std::optional(reads.last) : std::nullopt;
  }

  // The value that `addition` adds to the result of the node `before`. Nothing if `addition` is another op, or if that
  // value has another type than the result.
  std::optional<ValueId> ResidualOf(const Node& addition, size_t before) const {
    const auto self = addition.ValueOf("self");
    const auto other = addition.ValueOf("other");
    if (!IsPlainAddition(addition) || !self.has_value() || !other.has_value()) {
      return std::nullopt;
    }
    const ValueId result = program_.nodes()[before].outputs[0];
    const ValueId residual = *self == result ? *other : *self;
    return TypeOf(residual) == TypeOf(result) ? std::optional(residual) : std::nullopt;
  }

  Node Fused(const Chain& chain) const {
    Node node = program_.nodes()[chain.norm];
    const auto take = [&node](const char* name) {
      const Operand* const operand = node.Find(name);
      return Argument{name, operand == nullptr ? Operand() : *operand};
    };
    node.arguments = {take("input"),
                      take("weight"),
                      take("bias"),
                      take("running_mean"),
                      take("running_var"),
                      {"residual", chain.residual.has_value() ? Operand(*chain.residual) : Operand()},
                      take("momentum"),
                      take("eps"),
                      take("cudnn_enabled"),
                      {"relu", chain.relu},
                      {kNumResults, int64_t{1}}};
    node.op = std::string(kFusedBatchNorm);
    node.outputs = program_.nodes()[chain.last].outputs;
    return node;
  }

  const Graph& program_;
  const std::vector<ReadCounts> reads_;
  std::vector<bool> is_taken_;
};

// Gives each fused node with an addition and a ReLU a second result, if two nodes read its result.
class ResultSplit {
 public:
  explicit ResultSplit(const Graph& program) : program_(program), reads_(ReadsOf(program)) {}

  Graph Run() && {
    Rewriter rewriter(program_);
    std::map<ValueId, ValueId> seconds;  // Second results by first result, until a node has read the first one.
    for (const Node& node : program_.nodes()) {
      Node kept = node;
      if (HasTwoReaders(node)) {
        const Value& result = program_.value(node.outputs[0]);
        kept.outputs.push_back(rewriter.AddValue(result.name, result.type));
        kept.Set(kNumResults, int64_t{2});
        seconds[kept.outputs[0]] = kept.outputs[1];
      }
      rewriter.Keep(std::move(kept));
      for (const ValueId use : node.Uses()) {
        if (const auto second = seconds.find(use); second != seconds.end()) {
          rewriter.ReplaceUses(use, second->second);  // The other reader is a later node.
          seconds.erase(second);
        }
      }
    }
    return std::move(rewriter).Finish();
  }

 private:
  bool HasTwoReaders(const Node& node) const {
    if (node.op != kFusedBatchNorm || node.outputs.size() != 1 || node.Find("relu") == nullptr ||
        *node.Find("relu") != Operand(true) || !node.ValueOf("residual").has_value()) {
      return false;
    }
    const ReadCounts& reads = reads_[static_cast<size_t>(node.outputs[0].index)];
    const auto suits = [&](size_t reader) {
      const Node& other = program_.nodes()[reader];
      return !other.without_gradient && other.segment == node.segment;
    };
    return reads.count == 2 && reads.first != reads.last && suits(reads.first) && suits(reads.last);
  }

  const Graph& program_;
  const std::vector<ReadCounts> reads_;
};

}  // namespace

Graph WithFusedBatchNorms(const Graph& program) { return ResultSplit(Fusion(program).Run()).Run(); }

}  // namespace ampd::graph
