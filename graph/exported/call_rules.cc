#include "graph/exported/call_rules.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/exported/argument_rules.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/op_schemas.h"
#include "graph/op_table.h"

namespace ampd::graph {
namespace {

constexpr size_t kAny = 16;  // Means no upper limit; torch.export allows no more dimensions.
constexpr int64_t kMaxLayers = 4096;
constexpr std::string_view kResult = "result";

// One tensor of a call, and the number of dimensions that it may have.
struct Rule {
  std::string_view op;
  std::string_view tensor;  // An argument, or "result" for the first result.
  size_t least = 0;
  size_t most = kAny;
};

// Rules for three kinds of ops: those whose memory depends on the sizes of single dimensions (graph/cost/op_memory.cc),
// those whose work does (graph/cost/flops.cc), and those that a policy replaces by ops of ampd (precision/pass.cc).
const std::vector<Rule>& Rules() {
  static const auto* const rules = new std::vector<Rule>{
      {"aten.addmm.default", "mat1", 2, 2},
      {"aten.addmm.default", "mat2", 2, 2},
      {"aten.baddbmm.default", "batch1", 3, 3},
      {"aten.baddbmm.default", "batch2", 3, 3},
      {"aten.batch_norm.default", "input", 2},
      {"aten.batch_norm.default", kResult, 2},
      {"aten.bmm.default", "self", 3, 3},
      {"aten.bmm.default", "mat2", 3, 3},
      {"aten.conv2d.default", "input", 3, 4},
      {"aten.conv2d.default", "weight", 4, 4},
      {"aten.conv_transpose2d.input", "input", 3, 4},
      {"aten.conv_transpose2d.input", "weight", 4, 4},
      {"aten.convolution.default", "input", 2, 5},
      {"aten.convolution.default", "weight", 3, 5},
      {"aten.cross_entropy_loss.default", "self", 1},
      {"aten.embedding.default", "weight", 2, 2},
      {"aten.feature_dropout.default", "input", 2},
      {"aten.feature_dropout.default", kResult, 2},
      {"aten.group_norm.default", "input", 2},
      {"aten.group_norm.default", kResult, 2},
      {"aten.gru.input", "input", 3, 3},
      {"aten.gru.input", kResult, 3, 3},
      {"aten.layer_norm.default", "input", 1},
      {"aten.layer_norm.default", kResult, 1},
      {"aten.linear.default", "input", 1},
      {"aten.linear.default", "weight", 2, 2},
      {"aten.lstm.input", "input", 3, 3},
      {"aten.lstm.input", kResult, 3, 3},
      {"aten.matmul.default", "self", 1},
      {"aten.matmul.default", "other", 1},
      {"aten.max_pool2d.default", "self", 3, 4},
      {"aten.mm.default", "self", 2, 2},
      {"aten.mm.default", "mat2", 2, 2},
      {"aten.scaled_dot_product_attention.default", "query", 2},
      {"aten.scaled_dot_product_attention.default", "key", 2},
      {"aten.scaled_dot_product_attention.default", "value", 2},
      {"aten.scaled_dot_product_attention.default", kResult, 2},
  };
  return *rules;
}

// The numbers of dimensions that a rule allows, as text: "2", "3 to 4", "at least 1".
std::string Taken(const Rule& rule) {
  if (rule.least == rule.most) {
    return absl::StrCat(rule.least);
  }
  return rule.most == kAny ? absl::StrCat("at least ", rule.least) : absl::StrCat(rule.least, " to ", rule.most);
}

std::string FaultOf(const Rule& rule, const Graph& graph, const Node& node) {
  const std::string name(rule.tensor);
  const auto tensor = rule.tensor == kResult ? std::optional(node.outputs[0]) : node.ValueOf(rule.tensor);
  if (!tensor.has_value()) {
    return "";  // The op's schema says whether the tensor may be missing.
  }
  const size_t rank = graph.type(*tensor).shape.size();
  return rank >= rule.least && rank <= rule.most
             ? ""
             : absl::StrCat("its ", name, " has ", rank, " dimensions; it takes ", Taken(rule));
}

// The argument that has the shape of the result. Empty for ops with other results, and for ops whose result no pass
// exchanges for the argument. Passes make the readers of one read the other: for writes in place (WithoutInPlaceOps),
// for dropout (EvalProgram) and for casts (precision/fused_norms.h). So readers that were checked with the one shape
// must fit the other.
std::string_view ShapedLikeResult(const Node& node) {
  if (node.op == "aten.dropout.default" || node.op == "aten.feature_dropout.default") {
    return "input";
  }
  const OpRow* const row = FindOp(node.op);
  return node.op == "aten.to.dtype" || (row != nullptr && !row->in_place_of.empty()) ? "self" : "";
}

std::string FaultOfResult(const Graph& graph, const Node& node) {
  const auto argument = node.ValueOf(ShapedLikeResult(node));
  return argument.has_value() && graph.type(*argument).shape != graph.type(node.outputs[0]).shape
             ? absl::StrCat("its result has another shape than its ", std::string(ShapedLikeResult(node)))
             : "";
}

}  // namespace

std::string FaultOf(const Graph& graph, const Node& node) {
  if (std::string fault = FaultOfSchema(node); !fault.empty()) {
    return fault;
  }
  if (std::string fault = FaultOfResult(graph, node); !fault.empty()) {
    return fault;
  }
  for (const Rule& rule : Rules()) {
    if (rule.op == node.op) {
      if (std::string fault = FaultOf(rule, graph, node); !fault.empty()) {
        return fault;
      }
    }
  }
  const Operand* const layers = node.Find("num_layers");
  const auto* const num_layers = layers == nullptr ? nullptr : std::get_if<int64_t>(layers);
  return num_layers == nullptr || (*num_layers >= 1 && *num_layers <= kMaxLayers)
             ? FaultOfArguments(graph, node)
             : absl::StrCat("its num_layers is ", *num_layers, "; it takes 1 to ", kMaxLayers);
}

absl::StatusOr<Graph> WithSoundCalls(Graph graph) {
  for (const Node& node : graph.nodes()) {
    if (const std::string fault = FaultOf(graph, node); !fault.empty()) {
      return BadExport(absl::StrCat(node.Where(), ": ", fault));
    }
  }
  return graph;
}

}  // namespace ampd::graph
