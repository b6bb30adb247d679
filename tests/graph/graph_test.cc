#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

using ::testing::HasSubstr;

const TensorType kVector = {Dtype::kFloat32, {Dim::Batch(), 4}};

Node Relu(ValueId x) {
  return {.op = "aten.relu.default", .arguments = {{"self", x}}, .outputs = {}, .module_path = {}};
}

// The graph x -> relu -> relu_1 -> output y.
struct Chain {
  Chain() {
    x = graph.AddInput("x", kVector);
    first = graph.AddNode(Relu(x), "relu", kVector);
    second = graph.AddNode(Relu(first), "relu", kVector);
    graph.AddOutput("y", second);
  }
  Graph graph{"chain"};
  ValueId x, first, second;
};

TEST(GraphCheck, AChainHolds) { EXPECT_TRUE(Chain().graph.Check().ok()); }

TEST(GraphCheck, AUseBeforeTheDefinitionIsNamed) {
  Chain chain;
  chain.graph.SetNodes({chain.graph.nodes()[1], chain.graph.nodes()[0]});
  const absl::Status status = chain.graph.Check();
  EXPECT_EQ(ReasonOf(status), "BROKEN_GRAPH");
  EXPECT_THAT(std::string(status.message()), HasSubstr("uses %relu before it is defined"));
}

TEST(GraphCheck, ASecondDefinitionIsRefused) {
  Chain chain;
  chain.graph.AddNode(chain.graph.nodes()[0]);
  EXPECT_THAT(std::string(chain.graph.Check().message()), HasSubstr("%relu is defined twice"));
}

TEST(GraphCheck, AValueOfAnotherGraphIsRefused) {
  Chain chain;
  chain.graph.AddNode(Relu({99}), "relu", kVector);
  EXPECT_THAT(std::string(chain.graph.Check().message()), HasSubstr("not of this graph"));
}

TEST(GraphCheck, AnOutputThatNothingDefinesIsRefused) {
  Chain chain;
  chain.graph.AddOutput("z", chain.graph.AddValue("z", kVector));
  EXPECT_THAT(std::string(chain.graph.Check().message()), HasSubstr("output z uses %z"));
}

TEST(GraphCheck, ParametersOfOneNameAreRefused) {
  Chain chain;
  chain.graph.AddParameter("w", kVector, Initializer::Constant(0));
  chain.graph.AddParameter("w", kVector, Initializer::Constant(0));
  EXPECT_THAT(std::string(chain.graph.Check().message()), HasSubstr("named w"));
}

TEST(Graph, NamesThatAreTakenGetASuffix) {
  const Chain chain;
  EXPECT_EQ(chain.graph.value(chain.first).name, "relu");
  EXPECT_EQ(chain.graph.value(chain.second).name, "relu_1");
}

TEST(Graph, ASuffixNeverMeetsAGivenName) {
  Graph graph("names");
  graph.AddValue("a_1", kVector);
  graph.AddValue("a", kVector);
  EXPECT_EQ(graph.value(graph.AddValue("a", kVector)).name, "a_2");
}

TEST(Node, UsesListEveryValueIncludingThoseInLists) {
  const Node node = {
      .op = "aten.cat.default",
      .arguments = {{"tensors", std::vector<std::optional<ValueId>>{ValueId{3}, std::nullopt, ValueId{5}}},
                    {"dim", int64_t{0}},
                    {"other", ValueId{3}}},
      .outputs = {},
      .module_path = {}};
  EXPECT_EQ(node.Uses(), (std::vector<ValueId>{{3}, {5}, {3}}));
  EXPECT_EQ(node.ValueOf("other"), ValueId{3});
  EXPECT_EQ(node.ValueOf("dim"), std::nullopt);
}

TEST(Rewriter, AReplacedValueIsReplacedInNodesAndOutputs) {
  const Chain chain;
  Rewriter rewriter(chain.graph);
  rewriter.ReplaceUses(chain.first, chain.x);
  rewriter.ReplaceUses(chain.second, chain.first);
  const Graph result = std::move(rewriter).Finish();
  EXPECT_TRUE(result.nodes().empty());
  EXPECT_EQ(result.FindOutput("y"), chain.x);
}

TEST(Rewriter, ALaterReplacementMovesEarlierOnesAlong) {
  const Chain chain;
  Rewriter rewriter(chain.graph);
  rewriter.ReplaceUses(chain.second, chain.first);
  rewriter.ReplaceUses(chain.first, chain.x);
  EXPECT_EQ(rewriter.Resolve(chain.second), chain.x);
}

TEST(Rewriter, AnEmittedNodeStandsBeforeTheOneKeptNext) {
  const Chain chain;
  Rewriter rewriter(chain.graph);
  const Node cast = {.op = "aten.to.dtype",
                     .arguments = {{"self", chain.x}, {"dtype", Dtype::kBFloat16}},
                     .outputs = {},
                     .module_path = {}};
  const ValueId low = rewriter.Emit(cast, "x_bf16", {Dtype::kBFloat16, kVector.shape});
  rewriter.ReplaceUses(chain.x, low);
  for (const Node& node : chain.graph.nodes()) {
    rewriter.Keep(node);
  }
  const Graph result = std::move(rewriter).Finish();
  ASSERT_TRUE(result.Check().ok()) << result.Check();
  EXPECT_EQ(result.nodes()[0].ValueOf("self"), chain.x);
  EXPECT_EQ(result.nodes()[1].ValueOf("self"), low);
}

TEST(Initializer, KaimingUniformOfLayersIsOneOverTheRootOfTheFanIn) {
  EXPECT_NEAR(Initializer::KaimingUniform(100).UniformBound(), 0.1, 1e-15);
  EXPECT_EQ(Initializer::Bias(100).UniformBound(), 0.1);
}

TEST(Dtype, NamesAndTypesAgreeBothWays) {
  for (int i = 0; i <= static_cast<int>(Dtype::kBool); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(DtypeFromName(DtypeName(dtype)), dtype);
  }
  EXPECT_EQ(DtypeFromName("float8"), std::nullopt);
  EXPECT_EQ(DtypeName(Dtype::kBFloat16), "bfloat16");
  EXPECT_EQ(ItemSizeBytes(Dtype::kBFloat16), 2);
  EXPECT_FALSE(IsFloatingPoint(Dtype::kInt64));
}

// Compares Rewriter with a simple model of it: a table that maps each value to its replacement.
TEST(Rewriter, ReplacesAsATableWould) {
  constexpr int kValues = 12;
  Graph graph("values");
  std::vector<ValueId> values;
  for (int i = 0; i < kValues; ++i) {
    values.push_back(graph.AddInput(absl::StrCat("x", i), {Dtype::kFloat32, {Dim::Batch()}}));
  }
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Rewriter rewriter(graph);
    std::vector<ValueId> table = values;
    for (int i = 0; i < 30; ++i) {
      const ValueId from = values[random() % kValues];
      const ValueId to = values[random() % kValues];
      const ValueId resolved = table[static_cast<size_t>(to.index)];
      std::replace(table.begin(), table.end(), from, resolved);
      table[static_cast<size_t>(from.index)] = resolved;
      rewriter.ReplaceUses(from, to);
      for (const ValueId value : values) {
        ASSERT_EQ(rewriter.Resolve(value).index, table[static_cast<size_t>(value.index)].index) << i;
      }
    }
  }
}

}  // namespace
}  // namespace ampd::graph
