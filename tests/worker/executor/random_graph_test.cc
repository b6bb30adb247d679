// Random graphs: the executor against a naive evaluation that keeps everything, and passes that must not change
// results.

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

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

// A graph of up to 30 nodes whose arguments are any values before them, and what it computes, evaluated as it is made.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed), graph_("random") {
    for (int i = Below(2); i >= 0; --i) {
      inputs_.push_back(at::rand({2, 3}));
      values_.push_back(graph_.AddInput("x", kType));
      results_.push_back(inputs_.back());
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
    return executor->Run(inputs_);
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  size_t Any() { return static_cast<size_t>(Below(static_cast<int>(values_.size()))); }

  void AddNode() {
    const size_t a = Any();
    const size_t b = Any();
    switch (Below(3)) {
      case 0:
        return Add("aten.add.Tensor", {{"self", values_[a]}, {"other", values_[b]}}, results_[a] + results_[b]);
      case 1:
        return Add("aten.mul.Tensor", {{"self", values_[a]}, {"other", values_[b]}}, results_[a] * results_[b]);
      default:
        return Add("aten.tanh.default", {{"self", values_[a]}}, results_[a].tanh());
    }
  }

  void Add(std::string op, std::vector<graph::Argument> arguments, at::Tensor result) {
    Node node = {.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}};
    values_.push_back(graph_.AddNode(std::move(node), "v", kType));
    results_.push_back(std::move(result));
  }

  std::mt19937 random_;
  Graph graph_;
  std::vector<ValueId> values_;
  std::vector<at::Tensor> results_;
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
    equal = at::equal(a[i], b[i]);
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

TEST(RandomGraphs, AreUnchangedByARewriterThatKeepsEverything) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph random(seed);
    ASSERT_EQ(graph::ToText(Copied(random.graph())), graph::ToText(random.graph())) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ampd::executor
