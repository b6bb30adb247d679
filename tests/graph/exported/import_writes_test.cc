// Imports of programs that write tensors in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
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

}  // namespace
}  // namespace ampd::graph
