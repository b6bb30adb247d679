#include "graph/exported/call_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/batch_rules.h"
#include "graph/cost/flops.h"
#include "graph/cost/memory.h"
#include "graph/cost/traffic.h"
#include "graph/determinism.h"
#include "graph/exported/op_schemas.h"
#include "graph/fused_batch_norms.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "tests/count_from_environment.h"

namespace ampd::graph {
namespace {

using testing::IsEmpty;
using Kind = ArgumentSchema::Kind;

constexpr int64_t kSeldom = 20;

// Makes calls of ops with arguments of random kinds and shapes. The file of an exported model may contain such calls.
// Most arguments are of the kind that the op's schema declares, so that some calls are accepted.
class Calls {
 public:
  explicit Calls(int64_t seed) : random_(static_cast<uint64_t>(seed)) {}

  // Returns a graph of one call of the op and a loss computed from its first result.
  Graph Of(const OpRow& row) {
    const OpSchema& schema = *SchemaOf(row.op);
    Graph graph("call");
    graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 4}});
    Node node{.op = std::string(row.op), .arguments = {}, .outputs = {}, .module_path = "m"};
    for (const ArgumentSchema& argument : schema.arguments) {
      if (Chance(kSeldom) || (argument.may_be_left_out && Chance(2))) {
        continue;
      }
      const Kind kind =
          Chance(kSeldom) ? static_cast<Kind>(Below(static_cast<int64_t>(Kind::kPlace) + 1)) : argument.kind;
      const bool is_none = Chance(argument.may_be_none ? 3 : kSeldom);
      node.Set(argument.name, is_none ? Operand() : AnyOf(kind, argument.name, graph));
    }
    const auto num_results = static_cast<int64_t>(schema.num_results);
    for (int64_t left = Chance(kSeldom) ? Below(4) : num_results == 0 ? 2 : num_results; left > 0; --left) {
      node.outputs.push_back(graph.AddValue("result", {Dtype::kFloat32, AnyShape()}));
    }
    const ValueId loss = graph.AddValue("loss", {Dtype::kFloat32, {}});
    const Node mean{.op = "aten.mean.default",
                    .arguments = {{"self", node.outputs.empty() ? graph.inputs()[0] : node.outputs[0]}},
                    .outputs = {loss},
                    .module_path = ""};
    graph.AddNode(std::move(node));
    graph.AddNode(mean);
    graph.AddOutput("loss", loss);
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
    if (!shape.empty() && Chance(2)) {
      shape[0] = Dim::Batch();
    }
    return shape;
  }

  ValueId AnyTensor(const std::string& name, Graph& graph) {
    return graph.AddParameter(absl::StrCat(name, ".", graph.num_values()), {Dtype::kFloat32, AnyShape()},
                              Initializer::Constant(0));
  }

  std::vector<int64_t> AnyIntegers() {
    std::vector<int64_t> integers;
    for (int64_t size = Below(4); size > 0; --size) {
      integers.push_back(Below(4));
    }
    return integers;
  }

  Operand AnyOf(Kind kind, const std::string& name, Graph& graph) {
    switch (kind) {
      case Kind::kTensor:
      case Kind::kTensorOrNumber:
        return AnyTensor(name, graph);
      case Kind::kTensorList:
      case Kind::kOptionalTensorList:
        return std::vector<std::optional<ValueId>>{
            AnyTensor(name, graph), Chance(kSeldom) ? std::nullopt : std::optional(AnyTensor(name, graph))};
      case Kind::kNumber:
      case Kind::kInteger:
        return Below(5);
      case Kind::kReal:
        return 0.25 * static_cast<double>(Below(5));
      case Kind::kTruth:
        return Chance(2);
      case Kind::kText:
        return std::string("reflect");
      case Kind::kDtype:
        return Dtype::kFloat32;
      case Kind::kIntegerList:
        return AnyIntegers();
      case Kind::kPlace:
        return Operand();
    }
    return Operand();
  }

  std::mt19937_64 random_;
};

// Runs everything that looks at a graph before a trainer does.
void Estimate(const Graph& graph) {
  constexpr int64_t kBatchSize = 3;
  for (const bool on_gpu : {false, true}) {
    EXPECT_GE(EstimateRun(graph, kBatchSize, {.on_gpu = on_gpu}).peak.total(), 0);
    EXPECT_GE(EstimateEvaluation(graph, kBatchSize, on_gpu).total(), 0);
    for (const auto& [format, flops] : CountFlops(graph, kBatchSize, "*", on_gpu)) {
      EXPECT_GE(flops, 0) << DtypeName(format);
    }
  }
  EXPECT_GE(EstimateRun(WithFusedBatchNorms(graph), kBatchSize, {.on_gpu = true}).peak.total(), 0);
  EXPECT_GE(EstimateTraffic(graph, kBatchSize, /*has_loss_kernels=*/false).total(), 0);
  EXPECT_TRUE(EvalProgram(graph).Check().ok());
  FindNondeterministicOp(graph);
  FaultOfBatch(graph, kBatchSize);
}

TEST(FaultOf, LetsNoCallPassThatAnEstimateCannotTake) {
  constexpr int kCallsOfAnOp = 100;
  const int64_t seed = CountFromEnvironment("AMPD_SEED", 1);
  RecordProperty("seed", std::to_string(seed));
  Calls calls(seed);
  int num_accepted = 0;
  for (const OpRow& row : AllOps()) {
    ASSERT_NE(SchemaOf(row.op), nullptr) << row.op << " has no schema in graph/exported/schema_table.cc";
    SCOPED_TRACE(testing::Message() << row.op << ", repeat with AMPD_SEED=" << seed);
    for (int i = 0; i < kCallsOfAnOp && row.in_place_of.empty(); ++i) {
      const Graph graph = calls.Of(row);
      if (FaultOf(graph, graph.nodes()[0]).empty()) {
        ++num_accepted;
        Estimate(graph);
      }
    }
  }
  EXPECT_GT(num_accepted, 1000) << "hardly any call was accepted, so the test shows nothing";
}

// Returns a call of aten.select.int that its op takes.
Node Select(Graph& graph) {
  const ValueId x = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 4}});
  return {.op = "aten.select.int",
          .arguments = {{"self", x}, {"dim", int64_t{1}}, {"index", int64_t{0}}},
          .outputs = {graph.AddValue("y", {Dtype::kFloat32, {Dim::Batch()}})},
          .module_path = ""};
}

TEST(FaultOfSchema, NamesTheArgumentThatTheOpDoesNotTake) {
  Graph graph("call");
  const Node sound = Select(graph);
  EXPECT_THAT(FaultOfSchema(sound), IsEmpty());
  const auto fault_with = [&](const char* argument, Operand operand) {
    Node node = sound;
    node.Set(argument, std::move(operand));
    return FaultOfSchema(node);
  };
  EXPECT_EQ(fault_with("self", Operand()), "it has no tensor as its self");
  EXPECT_EQ(fault_with("self", int64_t{1}), "it has no tensor as its self");
  EXPECT_EQ(fault_with("dim", Operand()), "its dim is not an integer");
  EXPECT_EQ(fault_with("dim", std::string("channels")), "its dim is not an integer");
  EXPECT_EQ(fault_with("index", std::vector<int64_t>{0}), "its index is not an integer");
  EXPECT_EQ(fault_with("axis", int64_t{0}), "it has an argument \"axis\", which the op does not take");
  Node node = sound;
  node.arguments.pop_back();
  EXPECT_EQ(FaultOfSchema(node), "its argument index is missing; it takes an integer");
  node = sound;
  node.outputs.push_back(node.outputs[0]);
  EXPECT_EQ(FaultOfSchema(node), "it returns 2 tensors; the op returns 1");
  node.outputs.clear();
  EXPECT_EQ(FaultOfSchema(node), "it returns 0 tensors; the op returns 1");
  node.op = "aten.sort.default";
  EXPECT_EQ(FaultOfSchema(node), "it is not an op that models may use");
}

// torch.export writes the calls of this test: None for an argument that may be missing, a number in place of a tensor,
// one integer in place of a list, an integer in place of a floating-point number, and sizes that depend on the batch.
TEST(FaultOfSchema, TakesWhatTorchExportWrites) {
  Graph graph("call");
  const ValueId x = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 4, 4, 4}});
  const auto fault = [&](const char* op, std::vector<Argument> arguments, size_t num_results = 1) {
    return FaultOfSchema({.op = op,
                          .arguments = std::move(arguments),
                          .outputs = std::vector<ValueId>(num_results, x),
                          .module_path = ""});
  };
  const std::optional<ValueId> none;
  EXPECT_THAT(fault("aten.add.Tensor", {{"self", x}, {"other", int64_t{1}}, {"alpha", 2.0}}), IsEmpty());
  EXPECT_THAT(fault("aten.fill_.Tensor", {{"self", x}, {"value", 0.5}}), IsEmpty());
  EXPECT_THAT(fault("aten.avg_pool2d.default", {{"self", x}, {"kernel_size", int64_t{2}}}), IsEmpty());
  EXPECT_THAT(fault("aten.sum.dim_IntList", {{"self", x}, {"dim", Operand()}}), IsEmpty());
  EXPECT_THAT(fault("aten.dropout.default", {{"input", x}, {"p", int64_t{0}}, {"train", true}}), IsEmpty());
  EXPECT_THAT(fault("aten.expand.default", {{"self", x}, {"size", Shape{Dim::Batch(), 4}}}), IsEmpty());
  EXPECT_THAT(fault("aten.to.dtype", {{"self", x}, {"dtype", Dtype::kFloat16}}), IsEmpty());
  EXPECT_THAT(fault("aten.index.Tensor", {{"self", x}, {"indices", std::vector{none, std::optional(x)}}}), IsEmpty());
  EXPECT_THAT(fault("aten.chunk.default", {{"self", x}, {"chunks", int64_t{3}}}, 3), IsEmpty());
  EXPECT_EQ(fault("aten.cat.default", {{"tensors", std::vector{none, std::optional(x)}}}),
            "its tensors is not a list of tensors");
  EXPECT_EQ(fault("aten.chunk.default", {{"self", x}, {"chunks", int64_t{3}}}, 0),
            "it returns 0 tensors; the op returns a list of them");
}

}  // namespace
}  // namespace ampd::graph
