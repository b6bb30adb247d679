// Imports of programs that write tensors in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/exported/import.h"
#include "tests/graph/exported/exported_linear.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

// Returns a model that makes the positions 0 to `num_positions` - 1, overwrites those from `first` on by 2, and looks
// all of them up in a table of 3 rows.
json WithClippedPositions(int64_t num_positions, int64_t first) {
  json model = WithOutputs({"out"});
  AddParameter(model, "p_w", "table.weight", {3, 4});
  AddUserInput(model, "x", {kBatch, num_positions});
  AddCall(model, "arange.default", {{"end", {{"as_int", num_positions}}}}, "pos", "", "", {num_positions});
  AddCall(model, "slice.Tensor", {{"self", Named("pos")}, {"dim", {{"as_int", 0}}}, {"start", {{"as_int", first}}}},
          "rest", "", "", {num_positions - first});
  AddCall(model, "fill_.Tensor", {{"self", Named("rest")}, {"value", {{"as_int", 2}}}}, "filled", "", "",
          {num_positions - first});
  AddCall(model, "embedding.default", {{"weight", Named("p_w")}, {"indices", Named("pos")}}, "rows", "table",
          "torch.nn.modules.sparse.Embedding", {num_positions, 4});
  AddCall(model, "matmul.default", {{"self", Named("x")}, {"other", Named("rows")}}, "out", "", "", {kBatch, 4});
  for (const char* const tensor : {"pos", "rest", "filled"}) {
    GraphOf(model)["tensor_values"][tensor]["dtype"] = kLong;
  }
  return model;
}

TEST(ImportProgram, PositionsThatAreWrittenOverAreNotLookedUp) {
  EXPECT_THAT(Text(WithClippedPositions(6, 3)),
              HasSubstr("aten.embedding.default(weight=%table.weight, indices=%pos_written)"));
  json unwritten = WithClippedPositions(6, 3);
  GraphOf(unwritten)["nodes"].erase(2);
  EXPECT_THAT(Text(unwritten), HasSubstr("chooses row 5 of a table of 3 rows"));
}

// The call that takes the first two columns of a tensor.
json Columns(const std::string& whole, const std::string& part) {
  return Call("slice.Tensor", {{"self", Named(whole)}, {"dim", {{"as_int", 1}}}, {"end", {{"as_int", 2}}}}, part);
}

// Returns the layer of Linear(), whose result is multiplied by zeros of which the op `write`, "copy_" or "fill_",
// overwrites the first two columns. The write is in a nested graph, under torch.no_grad().
json WithWriteWithoutGradient(const std::string& write) {
  json model = Linear();
  json& graph = GraphOf(model);
  const json written = write == "copy_"
                           ? Call("copy_.default", {{"self", Named("to")}, {"src", Named("from")}}, "w")
                           : Call("fill_.Tensor", {{"self", Named("to")}, {"value", {{"as_float", 1.0}}}}, "w");
  const json inner = {{"inputs", json::array({Named("zeros"), Named("relu")})},
                      {"outputs", json::array()},
                      {"nodes", json::array({Columns("zeros", "to"), Columns("relu", "from"), written})},
                      {"tensor_values",
                       {{"zeros", Tensor({kBatch, 3})},
                        {"relu", Tensor({kBatch, 3})},
                        {"to", Tensor({kBatch, 2})},
                        {"from", Tensor({kBatch, 2})},
                        {"w", Tensor({kBatch, 2})}}},
                      {"sym_int_values", json::object()}};
  graph["nodes"].push_back(Call("zeros_like.default", {{"self", Named("relu")}}, "zeros"));
  json call = Call("",
                   {{"", {{"as_bool", false}}},
                    {"", {{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}}},
                    {"", Named("zeros")},
                    {"", Named("relu")}},
                   "");
  call["target"] = "torch.ops.higher_order.wrap_with_set_grad_enabled";
  call["outputs"] = json::array();
  graph["nodes"].push_back(call);
  graph["nodes"].push_back(Call("mul.Tensor", {{"self", Named("relu")}, {"other", Named("zeros")}}, "mul"));
  graph["tensor_values"]["zeros"] = graph["tensor_values"]["mul"] = Tensor({kBatch, 3});
  graph["outputs"][0] = Named("mul");
  return model;
}

TEST(ImportProgram, AWriteWithoutGradientsPassesNoneToWhatItWrites) {
  const std::string text = Text(WithWriteWithoutGradient("copy_"));
  EXPECT_THAT(text, HasSubstr("%graph_1.w: float32[B, 2] = aten.copy.default(self=%graph_1.to, src=%graph_1.from)"));
  EXPECT_THAT(text, HasSubstr("%graph_1.w_detached: float32[B, 2] = aten.detach.default(self=%graph_1.w)"));
  EXPECT_THAT(text, HasSubstr("aten.slice_scatter.default(self=%zeros, src=%graph_1.w_detached, dim=1, end=2)"));
  EXPECT_THAT(text, HasSubstr("aten.mul.Tensor(self=%relu, other=%zeros_written)"));
}

TEST(ImportProgram, AWriteOfNumbersWithoutGradientsIsNotDetached) {
  EXPECT_THAT(Text(WithWriteWithoutGradient("fill_")), Not(HasSubstr("aten.detach")));
}

// A part of the zeros gets a gradient by a write through a smaller part. What is computed from the larger part has this
// gradient, and in PyTorch it keeps the gradient when it is written under torch.no_grad().
TEST(ImportProgram, AWriteWithoutGradientsOverWhatHasOneByAWriteToItsPartIsRefused) {
  json model = WithWriteWithoutGradient("copy_");
  json& graph = GraphOf(model);
  const json added =
      json::array({Columns("zeros", "larger"), Columns("larger", "smaller"), Columns("relu", "trained"),
                   Call("add_.Tensor", {{"self", Named("smaller")}, {"other", Named("trained")}}, "added"),
                   Call("mul.Tensor", {{"self", Named("larger")}, {"other", {{"as_float", 2.0}}}}, "doubled")});
  graph["nodes"].insert(graph["nodes"].begin() + 3, added.begin(), added.end());
  for (const char* const tensor : {"larger", "smaller", "trained", "added", "doubled"}) {
    graph["tensor_values"][tensor] = Tensor({kBatch, 2});
  }
  graph["nodes"][8]["inputs"][2]["arg"] = Named("doubled");
  graph["nodes"][9] = Call("mul.Tensor", {{"self", Named("trained")}, {"other", Named("doubled")}}, "mul");
  graph["tensor_values"]["mul"] = Tensor({kBatch, 2});
  EXPECT_THAT(Text(model), HasSubstr("writes under torch.no_grad() over what has a gradient"));
}

// Returns a model that casts its input x to float32 by the op `cast`, adds 1 to the result y in place, and passes x * y
// to the layer of Linear(). `more`: further arguments of the cast.
json WithWrittenCast(const std::string& cast, const std::vector<std::pair<std::string, json>>& more) {
  json model = Linear();
  json& graph = GraphOf(model);
  std::vector<std::pair<std::string, json>> arguments = {{"self", Named("x")}, {"dtype", {{"as_scalar_type", kFloat}}}};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const json added = json::array({Call(cast, arguments, "y"),
                                  Call("add_.Tensor", {{"self", Named("y")}, {"other", {{"as_int", 1}}}}, "more"),
                                  Call("mul.Tensor", {{"self", Named("x")}, {"other", Named("y")}}, "product")});
  graph["nodes"].insert(graph["nodes"].begin(), added.begin(), added.end());
  graph["nodes"][3]["inputs"][0]["arg"] = Named("product");
  for (const char* const tensor : {"y", "more", "product"}) {
    graph["tensor_values"][tensor] = Tensor({kBatch, 4});
  }
  return model;
}

const std::pair<std::string, json> kCopy = {"copy", {{"as_bool", true}}};

TEST(ImportProgram, ACastThatCopiesIsACopyThatMayBeWritten) {
  const std::string copied = Text(WithWrittenCast("to.dtype", {kCopy}));
  EXPECT_THAT(copied, HasSubstr("%y: float32[B, 4] = aten.clone.default(self=%images)"));
  EXPECT_THAT(copied, HasSubstr("aten.add.Tensor(self=%y, other=1)"));
  EXPECT_THAT(copied, HasSubstr("aten.mul.Tensor(self=%images, other=%more)"));
  EXPECT_EQ(Text(WithWrittenCast("_to_copy.default", {})), copied);
  EXPECT_EQ(Text(WithWrittenCast("to.device", {kCopy})), copied);
}

TEST(ImportProgram, ACastThatMayCopyIsNotWrittenWhileItsSourceIsRead) {
  for (const int number : {1, 2}) {
    const json format = {{"as_memory_format", number}};
    EXPECT_THAT(Text(WithWrittenCast("to.dtype", {{"memory_format", format}})),
                HasSubstr("writes the memory of %images, which is read afterwards"));
  }
  const json preserved = {{"as_memory_format", 4}};
  EXPECT_THAT(Text(WithWrittenCast("to.dtype", {{"memory_format", preserved}})),
              HasSubstr("aten.mul.Tensor(self=%more, other=%more)"))
      << "the cast returns its argument";
}

TEST(ImportProgram, ACastThatTheTwinListsMayBeWrittenIfItCopies) {
  for (const char* const cast : {"to.dtype", "_to_copy.default"}) {
    json model = WithWrittenCast(cast, {kCopy});
    model["twin"] = {
        {"format", "ampd.bf16_twin"},
        {"version", 1},
        {"programs", {{"train", {{"meant", json::array()}, {"follows", json::array({"y"})}}}}},
    };
    EXPECT_THAT(Text(model), HasSubstr("%y: float32[B, 4] = aten.to.dtype(self=%images, dtype=float32)"));
    EXPECT_THAT(Text(model), HasSubstr("aten.mul.Tensor(self=%images, other=%more)"));
  }
}

TEST(ImportProgram, ACastToAnotherDtypeMayBeWritten) {
  json model = WithWrittenCast("to.dtype", {});
  GraphOf(model)["tensor_values"]["x"]["dtype"] = kLong;
  EXPECT_THAT(Text(model), HasSubstr("aten.mul.Tensor(self=%input_ids, other=%more)"));
}

// A norm writes its running mean, so a copy of the mean must be made before the norm runs.
TEST(ImportProgram, ACopyOfABufferStaysACopy) {
  json model = WithWrittenCast("to.dtype", {kCopy});
  AddState(model, Buffer("b_count", "count"), "b_count", "count", Tensor({1, 4}, false, kLong),
           Stored("weight_9", {1, 4}, kLong));
  GraphOf(model)["nodes"][0]["inputs"][0]["arg"] = Named("b_count");
  for (const char* const tensor : {"y", "more"}) {
    GraphOf(model)["tensor_values"][tensor] = Tensor({1, 4});
  }
  EXPECT_THAT(Text(model), HasSubstr("aten.to.dtype(self=%count, dtype=float32, copy=True)"));
}

}  // namespace
}  // namespace ampd::graph
