#include "graph/exported/call_rules.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "graph/cost/memory.h"
#include "graph/op_table.h"

namespace ampd::graph {
namespace {

constexpr std::string_view kTensors[] = {"self",      "input",  "weight", "other", "query",        "key",    "value",
                                         "attn_mask", "target", "hx",     "mask",  "running_mean", "indices"};
constexpr std::string_view kNumbers[] = {"groups", "num_layers", "dim", "reduction"};
constexpr std::string_view kTruths[] = {"train", "training", "batch_first", "bidirectional", "is_causal"};

// Makes calls of ops with random arguments of random shapes. The file of an exported model may contain such calls: the
// import does not check them against the ops' schemas, only the trainer does.
class Calls {
 public:
  // Returns a graph of one call of the op and a loss computed from its result.
  Graph Of(const OpRow& row) {
    Graph graph("call");
    graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 4}});
    Node node{.op = std::string(row.op), .arguments = {}, .outputs = {}, .module_path = "m"};
    for (const std::string_view name : kTensors) {
      if (Chance(2)) {
        node.Set(name, graph.AddParameter(std::string(name), {Dtype::kFloat32, AnyShape()}, Initializer::Constant(0)));
      }
    }
    for (const std::string_view name : kNumbers) {
      if (Chance(2)) {
        node.Set(name, Below(5));
      }
    }
    for (const std::string_view name : kTruths) {
      if (Chance(2)) {
        node.Set(name, Chance(2));
      }
    }
    Shape shape = AnyShape();
    if (!shape.empty() && Chance(2)) {
      shape[0] = Dim::Batch();
    }
    const ValueId result = graph.AddNode(std::move(node), "result", {Dtype::kFloat32, std::move(shape)});
    graph.AddOutput(
        "loss",
        graph.AddNode({.op = "aten.mean.default", .arguments = {{"self", result}}, .outputs = {}, .module_path = ""},
                      "loss", {Dtype::kFloat32, {}}));
    return graph;
  }

 private:
  int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }
  bool Chance(int64_t of) { return Below(of) == 0; }
  Shape AnyShape() {
    Shape shape;
    for (int64_t rank = Below(6); rank > 0; --rank) {
      shape.emplace_back(Below(4));
    }
    return shape;
  }

  std::mt19937_64 random_{1};
};

TEST(FaultOf, LetsNoCallPassWhoseMemoryCannotBeTold) {
  constexpr int kCallsOfAnOp = 100;
  Calls calls;
  for (const OpRow& row : AllOps()) {
    for (int i = 0; i < kCallsOfAnOp && row.in_place_of.empty(); ++i) {
      const Graph graph = calls.Of(row);
      if (FaultOf(graph, graph.nodes()[0]).empty()) {
        EXPECT_GE(EstimateRun(graph, 3).peak.total(), 0) << row.op;
        EXPECT_GE(EstimateEvaluation(graph, 3).total(), 0) << row.op;
      }
    }
  }
}

}  // namespace
}  // namespace ampd::graph
