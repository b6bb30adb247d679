// Compares the executor on random graphs with a naive evaluation that keeps all values, and checks that passes do not
// change results.

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "graph/rewriter.h"
#include "worker/executor/executor.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr int kSeeds = 300;
const graph::TensorType kType = {Dtype::kFloat32, {Dim::Batch(), 3}};

// How many kinds of nodes a random graph may have: the first N cases of AddNode. The three values of N are:
//   * kPlain: ops that write nothing in place;
//   * kWithViewsAndWrites: also views, and ops that write in place;
//   * kWithParts: also ops that take, read or change a part of a value.
constexpr int kPlain = 3;
constexpr int kWithViewsAndWrites = 5;
constexpr int kWithParts = 9;

// A graph of up to 30 nodes whose arguments are random earlier values. Holds the result of each node, computed while
// the graph is built.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed, int kinds = kPlain) : random_(seed), kinds_(kinds), graph_("random") {
    for (int i = Below(2); i >= 0; --i) {
      inputs_.push_back(at::rand({2, 3}));
      values_.push_back(graph_.AddInput("x", kType));
      results_.push_back(inputs_.back().clone());
    }
    for (int i = Below(30); i >= 0; --i) {
      AddNode();
    }
    for (int i = Below(3); i >= 0; --i) {
      const size_t chosen = Any();
      graph_.AddOutput("y" + std::to_string(i), values_[chosen]);
      expected_.push_back(results_[chosen]);
    }
  }

  const Graph& graph() const { return graph_; }
  const std::vector<at::Tensor>& expected() const { return expected_; }

  std::vector<at::Tensor> Run(const Graph& graph) const {
    auto executor = Executor::Create(graph, OpRegistry()).value();
    EXPECT_TRUE(executor->Bind({}).ok());
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& input : inputs_) {
      inputs.push_back(input.clone());
    }
    return executor->Run(inputs);
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  size_t Any() { return static_cast<size_t>(Below(static_cast<int>(values_.size()))); }

  void AddNode() {
    const size_t a = Any();
    const size_t b = Any();
    switch (Below(kinds_)) {
      case 0:
        return Add("aten.add.Tensor", {{"self", values_[a]}, {"other", values_[b]}}, results_[a] + results_[b]);
      case 1:
        return Add("aten.mul.Tensor", {{"self", values_[a]}, {"other", values_[b]}}, results_[a] * results_[b]);
      case 2:
        return Add("aten.tanh.default", {{"self", values_[a]}}, results_[a].tanh());
      case 3:
        return Add("aten.view.default", {{"self", values_[a]}, {"size", std::vector<int64_t>{-1, 3}}},
                   results_[a].view({-1, 3}));
      case 4:
        return Add("aten.add_.Tensor", {{"self", values_[a]}, {"other", values_[b]}}, results_[a].add_(results_[b]));
      case 5:
        return parts_.empty() ? AddPartOf({values_[a], results_[a]}) : ReadPart(a);
      case 6:
        return AddPartOf({values_[a], results_[a]});
      default:
        return parts_.empty() ? AddPartOf({values_[a], results_[a]}) : ChangePart();
    }
  }

  // Some rows or columns of a value. All values in `values_` have one shape; a part is smaller.
  struct Part {
    ValueId value;
    at::Tensor result;
  };

  Part AddPart(std::string op, std::vector<graph::Argument> arguments, at::Tensor result) {
    Node node = {.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}};
    const graph::Shape shape(result.sizes().begin(), result.sizes().end());
    return {graph_.AddNode(std::move(node), "part", {Dtype::kFloat32, shape}), std::move(result)};
  }

  // Adds a node that takes a part of a part: one row or column of it, or every second row or column.
  void AddPartOf(const Part& whole) {
    const int64_t dim = Below(static_cast<int>(whole.result.dim()));
    const auto size = static_cast<int>(whole.result.size(dim));
    const int64_t start = Below(size);
    parts_.push_back(Below(2) == 0 && whole.result.dim() > 1
                         ? AddPart("aten.select.int", {{"self", whole.value}, {"dim", dim}, {"index", start}},
                                   whole.result.select(dim, start))
                         : AddPart("aten.slice.Tensor",
                                   {{"self", whole.value}, {"dim", dim}, {"start", start}, {"step", int64_t{2}}},
                                   whole.result.slice(dim, start, std::nullopt, 2)));
    if (Below(2) == 0) {
      ChangePart();
    }
  }

  // Chooses a part, usually the newest. Adds a node that writes into this part or, sometimes, a node that takes a part
  // of it.
  void ChangePart() {
    const Part part =
        Below(4) > 0 ? parts_.back() : parts_[static_cast<size_t>(Below(static_cast<int>(parts_.size())))];
    if (Below(4) == 0) {
      return AddPartOf(part);
    }
    parts_.push_back(AddPart("aten.mul_.Tensor", {{"self", part.value}, {"other", 1.5}}, part.result.mul_(1.5)));
  }

  void ReadPart(size_t a) {
    const Part& part = parts_[static_cast<size_t>(Below(static_cast<int>(parts_.size())))];
    // The sum reads a contiguous copy, because the memory layout decides the order of addition.
    const Part dense = AddPart("aten.contiguous.default", {{"self", part.value}}, part.result.contiguous());
    const Part sum = AddPart("aten.sum.default", {{"self", dense.value}}, dense.result.sum());
    Add("aten.add.Tensor", {{"self", values_[a]}, {"other", sum.value}}, results_[a] + sum.result);
  }

  void Add(std::string op, std::vector<graph::Argument> arguments, at::Tensor result) {
    Node node = {.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}};
    values_.push_back(graph_.AddNode(std::move(node), "v", kType));
    results_.push_back(std::move(result));
  }

  std::mt19937 random_;
  const int kinds_;
  Graph graph_;
  std::vector<ValueId> values_;
  std::vector<at::Tensor> results_;
  std::vector<Part> parts_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> expected_;
};

Graph Copied(const Graph& graph) {
  graph::Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    rewriter.Keep(node);
  }
  return std::move(rewriter).Finish();
}

bool Equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i) {
    equal = at::allclose(a[i], b[i], /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
  }
  return equal;
}

TEST(RandomGraphs, RunAsTheNaiveEvaluationDoes) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random(seed);
    ASSERT_TRUE(random.graph().Check().ok()) << "seed " << seed;
    ASSERT_TRUE(Equal(random.Run(random.graph()), random.expected())) << "seed " << seed;
  }
}

TEST(RandomGraphs, KeepTheirResultsWithoutDeadNodes) {
  size_t removed = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random(seed);
    const Graph living = graph::WithoutDeadNodes(random.graph());
    ASSERT_TRUE(living.Check().ok()) << "seed " << seed;
    ASSERT_TRUE(Equal(random.Run(living), random.expected())) << "seed " << seed;
    ASSERT_EQ(graph::ToText(graph::WithoutDeadNodes(living)), graph::ToText(living)) << "seed " << seed;
    removed += random.graph().nodes().size() - living.nodes().size();
  }
  EXPECT_GT(removed, 0u);
}

class WritingGraphs : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(RandomGraphs, WritingGraphs, testing::Values(kWithViewsAndWrites, kWithParts));

TEST_P(WritingGraphs, KeepTheirResultsWithoutDeadNodesAndOutOfPlaceOrAreRefused) {
  int refused = 0;
  int rewritten = 0;
  int put_back = 0;  // Number of graphs with a scatter that puts a written part back.
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random(seed, GetParam());
    ASSERT_TRUE(Equal(random.Run(random.graph()), random.expected())) << "seed " << seed;
    const Graph living = graph::WithoutDeadNodes(random.graph());
    ASSERT_TRUE(Equal(random.Run(living), random.expected())) << "seed " << seed << "\n" << graph::ToText(living);
    const auto plain = graph::WithoutInPlaceOps(living);
    if (!plain.ok()) {
      ASSERT_EQ(ReasonOf(plain.status()), "ALIASED_WRITE") << "seed " << seed;
      ++refused;
      continue;
    }
    ASSERT_TRUE(Equal(random.Run(*plain), random.expected())) << "seed " << seed << "\n" << graph::ToText(living);
    rewritten += graph::ToText(*plain) == graph::ToText(living) ? 0 : 1;
    put_back += graph::ToText(*plain).find("_scatter.default") == std::string::npos ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(rewritten, 0);
  EXPECT_EQ(put_back > 0, GetParam() == kWithParts);
}

TEST(RandomGraphs, AreUnchangedByARewriterThatKeepsEverything) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random(seed);
    ASSERT_EQ(graph::ToText(Copied(random.graph())), graph::ToText(random.graph())) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ampd::executor
