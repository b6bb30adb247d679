#include "precision/fused_norms.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/rewriter.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::Operand;
using graph::ValueId;

constexpr double kDefaultEpsilon = 1e-5;

bool IsFormat(Dtype dtype) { return dtype == Dtype::kFloat32 || dtype == Dtype::kBFloat16 || dtype == Dtype::kFloat16; }

bool IsNarrow(Dtype dtype) { return IsFormat(dtype) && dtype != Dtype::kFloat32; }

Operand Given(const Node& node, std::string_view name, const Operand& missing = {}) {
  const Operand* const given = node.Find(name);
  return given == nullptr ? missing : *given;
}

bool IsOne(const Operand& operand) { return operand == Operand(int64_t{1}) || operand == Operand(1.0); }

class NormFuser {
 public:
  explicit NormFuser(const Graph& program)
      : program_(program),
        makers_(static_cast<size_t>(program.num_values())),
        readers_(static_cast<size_t>(program.num_values())),
        replaced_(program.nodes().size(), false) {
    for (size_t i = 0; i < program.nodes().size(); ++i) {
      for (const ValueId use : program.nodes()[i].Uses()) {
        readers_[Index(use)].push_back(i);
      }
      for (const ValueId output : program.nodes()[i].outputs) {
        makers_[Index(output)] = i;
      }
    }
    for (const graph::Output& output : program.outputs()) {
      readers_[Index(output.value)].push_back(program.nodes().size());
    }
  }

  Graph Run() && {
    std::vector<Node> nodes = program_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (IsNorm(nodes[i])) {
        nodes[i] = Fused(i);
      }
    }
    graph::Rewriter rewriter(program_);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!replaced_[i]) {
        rewriter.Keep(std::move(nodes[i]));
      }
    }
    return std::move(rewriter).Finish();
  }

 private:
  static size_t Index(ValueId value) { return static_cast<size_t>(value.index); }
  Dtype TypeOf(ValueId value) const { return program_.type(value).dtype; }

  bool IsNorm(const Node& node) const {
    return node.op == "aten.layer_norm.default" && IsFormat(TypeOf(*node.ValueOf("input"))) &&
           IsFormat(TypeOf(node.outputs[0]));
  }

  Node Fused(size_t norm) {
    const Node& source = program_.nodes()[norm];
    Node node = source;
    const auto add = AddBefore(norm);
    node.op = add.has_value() ? "ampd.add_layer_norm" : "ampd.layer_norm";
    node.arguments.clear();
    node.outputs.clear();
    if (add.has_value()) {
      const Node& addition = program_.nodes()[*add];
      for (const char* const name : {"self", "other"}) {
        node.arguments.push_back({name, BeforeCast(*addition.ValueOf(name))});
      }
      node.outputs = addition.outputs;
      replaced_[*add] = true;
    } else {
      node.arguments.push_back({"input", *source.ValueOf("input")});
    }
    node.outputs.push_back(AfterCast(source));
    for (const char* const name : {"normalized_shape", "weight", "bias"}) {
      node.arguments.push_back({name, Given(source, name)});
    }
    node.arguments.push_back({"eps", Given(source, "eps", kDefaultEpsilon)});
    if (add.has_value()) {
      node.arguments.push_back({"sum_dtype", TypeOf(node.outputs[0])});
    }
    node.arguments.push_back({"dtype", TypeOf(node.outputs.back())});
    return node;
  }

  // Returns the addition that makes the norm's input, if the fused op can compute it too.
  std::optional<size_t> AddBefore(size_t norm) const {
    const Node& node = program_.nodes()[norm];
    const ValueId sum = *node.ValueOf("input");
    const auto maker = makers_[Index(sum)];
    if (!maker.has_value()) {
      return std::nullopt;
    }
    const Node& add = program_.nodes()[*maker];
    const auto is_whole = [&](std::string_view name) {
      const auto value = add.ValueOf(name);
      return value.has_value() && IsFormat(TypeOf(*value)) && program_.type(*value).shape == program_.type(sum).shape;
    };
    const bool is_first = *std::min_element(readers_[Index(sum)].begin(), readers_[Index(sum)].end()) == norm;
    const bool is_sum = add.op == "aten.add.Tensor" && is_whole("self") && is_whole("other") &&
                        IsOne(Given(add, "alpha", int64_t{1})) && add.without_gradient == node.without_gradient;
    return is_sum && is_first ? maker : std::nullopt;
  }

  // If the addend is a 16-bit activation that was cast to fp32 only for this addition, returns the activation before
  // the cast. Otherwise returns the addend.
  ValueId BeforeCast(ValueId addend) {
    const auto maker = makers_[Index(addend)];
    if (!maker.has_value() || !IsCast(*maker) || readers_[Index(addend)].size() != 1) {
      return addend;
    }
    const ValueId before = *program_.nodes()[*maker].ValueOf("self");
    if (!IsNarrow(TypeOf(before)) || TypeOf(addend) != Dtype::kFloat32 || !makers_[Index(before)].has_value()) {
      return addend;
    }
    replaced_[*maker] = true;
    return before;
  }

  // Returns the value that the fused op has as its result. This is the result of the cast that follows the norm if the
  // fused op replaces that cast; otherwise it is the result of the norm.
  ValueId AfterCast(const Node& norm) {
    const ValueId result = norm.outputs[0];
    const std::vector<size_t>& readers = readers_[Index(result)];
    if (TypeOf(result) != Dtype::kFloat32 || readers.size() != 1 || readers[0] == program_.nodes().size() ||
        !IsCast(readers[0])) {
      return result;
    }
    const Node& cast = program_.nodes()[readers[0]];
    if (!IsNarrow(TypeOf(cast.outputs[0])) || cast.without_gradient != norm.without_gradient) {
      return result;
    }
    replaced_[readers[0]] = true;
    return cast.outputs[0];
  }

  bool IsCast(size_t index) const {
    const Node& node = program_.nodes()[index];
    return node.op == "aten.to.dtype" && node.arguments.size() == 2 && node.ValueOf("self").has_value();
  }

  const Graph& program_;
  std::vector<std::optional<size_t>> makers_;  // The node that makes a value; nothing for inputs and parameters.
  std::vector<std::vector<size_t>> readers_;   // The nodes that read a value; one beyond the last node for an output.
  std::vector<bool> replaced_;                 // Nodes whose work a fused op does.
};

}  // namespace

Graph WithFusedNorms(const Graph& program) { return NormFuser(program).Run(); }

}  // namespace ampd::precision
