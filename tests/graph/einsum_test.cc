#include "graph/einsum/einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/passes.h"
#include "graph/print.h"

namespace ampd::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Returns a graph of one einsum over inputs of these shapes.
Graph EinsumOf(const std::string& equation, const std::vector<Shape>& shapes, std::vector<int64_t> path = {}) {
  Graph graph("einsum");
  std::vector<std::optional<ValueId>> operands;
  for (const Shape& shape : shapes) {
    operands.emplace_back(graph.AddInput("x", {Dtype::kFloat32, shape}));
  }
  Node node{.op = "aten.einsum.default",
            .arguments = {{"equation", equation}, {"tensors", operands}},
            .outputs = {},
            .module_path = "layer",
            .source = "net.py:7"};
  if (!path.empty()) {
    node.arguments.push_back({"path", std::move(path)});
  }
  graph.AddOutput("result", graph.AddNode(std::move(node), "result", {Dtype::kFloat32, {}}));
  return graph;
}

// Returns the ops that the einsum is split into, except those that only reorder the dimensions of a tensor.
std::vector<std::string> Computing(const std::string& equation, const std::vector<Shape>& shapes,
                                   std::vector<int64_t> path = {}) {
  std::vector<std::string> ops;
  const auto parts = WithoutEinsums(EinsumOf(equation, shapes, std::move(path)));
  EXPECT_TRUE(parts.ok()) << parts.status();
  for (const Node& node : parts.ok() ? parts->nodes() : std::vector<Node>()) {
    if (node.op != "aten.permute.default" && node.op != "aten.reshape.default" && node.op != "aten.diagonal.default") {
      ops.push_back(node.op);
    }
    EXPECT_EQ(node.module_path, "layer");
    EXPECT_EQ(node.source, "net.py:7");
    EXPECT_EQ(node.part_of, "aten.einsum.default");
  }
  return ops;
}

// Returns the type of the einsum's result as text.
std::string ShapeOf(const std::string& equation, const std::vector<Shape>& shapes) {
  const Graph parts = WithoutEinsums(EinsumOf(equation, shapes)).value();
  return ToText(parts.type(parts.outputs()[0].value));
}

const Dim kB = Dim::Batch();
constexpr char kMul[] = "aten.mul.Tensor";
constexpr char kBmm[] = "aten.bmm.default";
constexpr char kSum[] = "aten.sum.dim_IntList";

TEST(WithoutEinsums, WhatIsSummedOverThatBothHaveIsAProductOfMatrices) {
  EXPECT_THAT(Computing("ij,jk->ik", {{kB, 4}, {4, 5}}), ElementsAre(kBmm));
  EXPECT_THAT(Computing("bhqd,bhkd->bhqk", {{kB, 2, 3, 4}, {kB, 2, 5, 4}}), ElementsAre(kBmm));
  EXPECT_THAT(Computing("i,i->", {{4}, {4}}), ElementsAre(kBmm));
  EXPECT_THAT(Computing("ij,ij->i", {{kB, 4}, {kB, 4}}), ElementsAre(kBmm));
}

TEST(WithoutEinsums, ProductsOfElementsAndSumsAreThemselves) {
  EXPECT_THAT(Computing("i,j->ij", {{3}, {4}}), ElementsAre(kMul));
  EXPECT_THAT(Computing("btc,c->btc", {{kB, 3, 4}, {4}}), ElementsAre(kMul));
  EXPECT_THAT(Computing("...d,d->...d", {{kB, 3, 4}, {4}}), ElementsAre(kMul));
  EXPECT_THAT(Computing("ij->ji", {{3, 4}}), IsEmpty());
  EXPECT_THAT(Computing("ii->i", {{3, 3}}), IsEmpty());
  EXPECT_THAT(Computing("ij->i", {{3, 4}}), ElementsAre(kSum));
  EXPECT_THAT(Computing("ij,k->ik", {{3, 4}, {5}}), ElementsAre(kSum, kMul));
  EXPECT_THAT(Computing("ij,jk->i", {{3, 4}, {4, 5}}), ElementsAre(kSum, kBmm));
}

TEST(WithoutEinsums, SeveralOperandsAreMultipliedInTurnOrByTheirPath) {
  EXPECT_THAT(Computing("bi,bj,bk->bijk", {{kB, 3}, {kB, 4}, {kB, 5}}), ElementsAre(kMul, kMul));
  EXPECT_THAT(Computing("ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}), ElementsAre(kBmm, kBmm));
  EXPECT_THAT(Computing("i,ij,j->", {{2}, {2, 3}, {3}}), ElementsAre(kBmm, kBmm));
  EXPECT_THAT(Computing("i,ij,j->", {{2}, {2, 3}, {3}}, {0, 2, 0, 1}), ElementsAre(kMul, kBmm));
}

TEST(WithoutEinsums, ADimensionOfSizeOneIsSummedOverByItself) {
  EXPECT_THAT(Computing("ij,kj->k", {{3, 1}, {5, 1}}), ElementsAre(kSum, kMul));
}

TEST(WithoutEinsums, TheResultHasTheShapeThatTheEquationSays) {
  EXPECT_EQ(ShapeOf("ij,jk->ki", {{kB, 4}, {4, 5}}), "float32[5, B]");
  EXPECT_EQ(ShapeOf("bd,cd->bc", {{kB, 4}, {kB, 4}}), "float32[B, B]");
  EXPECT_EQ(ShapeOf("...ij,jk", {{kB, 3, 4}, {4, 5}}), "float32[B, 3, 5]");
  EXPECT_EQ(ShapeOf("ba,ac", {{2, 3}, {3, 4}}), "float32[2, 4]") << "letters in the order of the alphabet";
  EXPECT_EQ(ShapeOf("bii->bi", {{kB, 3, 3}}), "float32[B, 3]");
  EXPECT_EQ(ShapeOf("ij,ij->", {{kB, 3}, {kB, 3}}), "float32[]");
  EXPECT_EQ(ShapeOf("ij->ij", {{kB, 3}}), "float32[B, 3]");
}

TEST(WithoutEinsums, WhatNoGraphHoldsStays) {
  const Graph parts = WithoutDeadNodes(WithoutEinsums(EinsumOf("abc,abd->cd", {{kB, kB, 3}, {kB, kB, 4}})).value());
  ASSERT_EQ(parts.nodes().size(), 1u);
  EXPECT_EQ(parts.nodes()[0].op, "aten.einsum.default");
}

TEST(WithoutEinsums, AnEquationThatDoesNotGoWithItsOperandsIsRefusedWithTheLine) {
  const auto message = [](const std::string& equation, const std::vector<Shape>& shapes,
                          const std::vector<int64_t>& path = {}) {
    const absl::Status status = WithoutEinsums(EinsumOf(equation, shapes, path)).status();
    EXPECT_EQ(ReasonOf(status), "BAD_EINSUM") << equation;
    return std::string(status.message());
  };
  EXPECT_EQ(message("ij,jk->ik", {{3, 4}}),
            "aten.einsum.default of layer (net.py:7): its equation is of 2 operands; it has 1");
  EXPECT_THAT(message("ijk->ik", {{3, 4}}), HasSubstr("its operand 0 has 2 dimensions; its equation names 3"));
  EXPECT_THAT(message("...ijk", {{3, 4}}), HasSubstr("its operand 0 has 2 dimensions"));
  EXPECT_THAT(message("i1->i", {{3, 4}}), HasSubstr("something else than letters"));
  EXPECT_THAT(message("i.j", {{3, 4}}), HasSubstr("something else than letters"));
  EXPECT_THAT(message("...i...", {{3, 4}}), HasSubstr("\"...\" twice"));
  EXPECT_THAT(message("ij->ik", {{3, 4}}), HasSubstr("its result has a letter twice, or one that no operand has"));
  EXPECT_THAT(message("ij->ii", {{3, 4}}), HasSubstr("its result has a letter twice"));
  EXPECT_THAT(message("ij,jk", {{3, 4}, {5, 6}}), HasSubstr("several sizes"));
  EXPECT_THAT(message("ii", {{3, 4}}), HasSubstr("several sizes"));
  EXPECT_THAT(message("ij,jk", {{3, 4}, {4, 6}}, {0, 2}), HasSubstr("names operands that it has not"));
  EXPECT_THAT(message("ij,jk", {{3, 4}, {4, 6}}, {0}), HasSubstr("is not of all its operands"));
}

}  // namespace
}  // namespace ampd::graph
