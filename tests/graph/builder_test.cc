#include "graph/builder/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/op_table.h"
#include "graph/print.h"
#include "graph/vocabulary.h"

namespace ampd::graph {
namespace {

using ::testing::HasSubstr;

TensorType Images(int64_t channels, int64_t size) { return {Dtype::kFloat32, {Dim::Batch(), channels, size, size}}; }

// Returns the shape of a layer's result, or the error about its sizes.
template <typename Layer>
std::string ShapeAfter(TensorType input, Layer layer) {
  GraphBuilder b("test");
  const ValueId y = layer(b, b.Input("x", std::move(input)));
  b.Output("y", y);
  const auto graph = std::move(b).Build();
  if (!graph.ok()) {
    EXPECT_EQ(ReasonOf(graph.status()), "INVALID_MODEL");
    return std::string(graph.status().message());
  }
  return ToText(graph->type(y));
}

TEST(Conv2d, ShapesFollowPaddingAndStride) {
  const auto conv = [](Conv2dOptions options) {
    return ShapeAfter(Images(3, 9), [&](GraphBuilder& b, ValueId x) { return b.Conv2d("c", x, options); });
  };
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 3, .padding = 1}), "float32[B, 6, 9, 9]");
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 3, .stride = 2}), "float32[B, 6, 4, 4]");
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 9, .groups = 3}), "float32[B, 6, 1, 1]");
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 11}), "test layer c: the image is smaller than the kernel");
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 3, .groups = 2}),
            "test layer c: channels 3 and 6 must divide into 2 groups");
  EXPECT_THAT(conv({.out_channels = 0}), HasSubstr("positive channels"));
}

TEST(ConvTranspose2d, UndoesTheShapesOfAConvolution) {
  const auto conv = [](Conv2dOptions options) {
    return ShapeAfter(Images(3, 7), [&](GraphBuilder& b, ValueId x) { return b.ConvTranspose2d("c", x, options); });
  };
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 4, .stride = 2, .padding = 1}), "float32[B, 6, 14, 14]");
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 7}), "float32[B, 6, 13, 13]");
  EXPECT_EQ(conv({.out_channels = 6, .kernel_size = 1, .padding = 4}),
            "test layer c: the padding takes all of the image");
  EXPECT_THAT(conv({.out_channels = 6, .kernel_size = 3, .groups = 3}), HasSubstr("one group"));
}

TEST(MaxPool2d, TakesStrideAndPaddingAndDropsIncompleteWindows) {
  const auto pool = [](MaxPool2dOptions options) {
    return ShapeAfter(Images(3, 7), [&](GraphBuilder& b, ValueId x) { return b.MaxPool2d("p", x, options); });
  };
  EXPECT_EQ(pool({.kernel_size = 2}), "float32[B, 3, 3, 3]");
  EXPECT_EQ(pool({.kernel_size = 3, .stride = 2, .padding = 1}), "float32[B, 3, 4, 4]");
  EXPECT_EQ(pool({.kernel_size = 8, .padding = 1}), "float32[B, 3, 1, 1]");
  EXPECT_EQ(pool({.kernel_size = 8}), "test layer p: an image of 7 x 7 pixels is too small for pooling by 8");
  EXPECT_EQ(pool({.kernel_size = 2, .padding = 2}), "test layer p: pooling pads by at most half of its window");
  EXPECT_THAT(pool({.kernel_size = 0}), HasSubstr("positive kernel size"));
}

TEST(Flatten, MultipliesAllButTheBatch) {
  EXPECT_EQ(ShapeAfter(Images(3, 7), [](GraphBuilder& b, ValueId x) { return b.Flatten("f", x); }), "float32[B, 147]");
}

TEST(Linear, NeedsOutputs) {
  EXPECT_EQ(
      ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 4}}, [](GraphBuilder& b, ValueId x) { return b.Linear("l", x, 0); }),
      "test layer l: a linear layer needs at least one output");
}

TEST(Conv1d, KeepsItsWeightWithTheInputsFirst) {
  GraphBuilder b("test");
  b.Output("y", b.Conv1d("c", b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 4, 6}}), 9, Initializer::Normal(0.02)));
  const Graph graph = std::move(b).Build().value();
  ASSERT_EQ(graph.parameters().size(), 2);
  EXPECT_EQ(graph.parameters()[0].name, "c.weight");
  EXPECT_EQ(ToText(graph.type(graph.parameters()[0].value)), "float32[6, 9]");
  EXPECT_EQ(graph.parameters()[0].initializer.bound, 0.02);
  EXPECT_EQ(graph.parameters()[1].initializer.kind, Initializer::Kind::kConstant);
  EXPECT_EQ(ToText(graph.type(graph.outputs()[0].value)), "float32[B, 4, 9]");
  const Node& linear = graph.nodes().back();
  EXPECT_EQ(linear.op, "aten.linear.default");
  EXPECT_EQ(ToText(graph.type(*linear.ValueOf("weight"))), "float32[9, 6]");
}

TEST(Rows, AreTheFirstOnesAndAllOfThemAreTheTensorItself) {
  const auto rows = [](int64_t count) {
    GraphBuilder b("test");
    b.Output("y", b.Rows("r", b.Parameter("table", {5, 3}, Initializer::Constant(0)), count));
    const auto graph = std::move(b).Build();
    return graph.ok() ? absl::StrCat(ToText(graph->type(graph->outputs()[0].value)), " ", graph->nodes().size())
                      : std::string(graph.status().message());
  };
  EXPECT_EQ(rows(2), "float32[2, 3] 1");
  EXPECT_EQ(rows(5), "float32[5, 3] 0");
  EXPECT_EQ(rows(6), "test layer r: there are no 6 rows");
  EXPECT_EQ(rows(0), "test layer r: there are no 0 rows");
}

TEST(Dropout, OfEverythingIsRefused) {
  EXPECT_THAT(ShapeAfter(Images(1, 2), [](GraphBuilder& b, ValueId x) { return b.Dropout("d", x, 1.0); }),
              HasSubstr("not in [0, 1)"));
}

TEST(Add, OfDifferentShapesIsRefused) {
  EXPECT_THAT(
      ShapeAfter(Images(1, 4),
                 [](GraphBuilder& b, ValueId x) { return b.Add("a", x, b.MaxPool2d("p", x, {.kernel_size = 2})); }),
      HasSubstr("different shapes"));
}

TEST(Add, OfTheEndOfAShapeIsSpread) {
  const auto add = [](Shape end) {
    return ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 3, 4}}, [&](GraphBuilder& b, ValueId x) {
      return b.Add("a", x, b.Parameter("p", std::move(end), Initializer::Constant(0)));
    });
  };
  EXPECT_EQ(add({3, 4}), "float32[B, 3, 4]");
  EXPECT_EQ(add({4}), "float32[B, 3, 4]");
  EXPECT_THAT(add({3}), HasSubstr("different shapes"));
}

TEST(View, KeepsTheElements) {
  const auto view = [](Shape shape) {
    return ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 3, 4}},
                      [&](GraphBuilder& b, ValueId x) { return b.View("v", x, std::move(shape)); });
  };
  EXPECT_EQ(view({Dim::Batch(3), 4}), "float32[3*B, 4]");
  EXPECT_EQ(view({Dim::Batch(), 3, 2, 2}), "float32[B, 3, 2, 2]");
  EXPECT_THAT(view({Dim::Batch(), 4}), HasSubstr("as many elements"));
  EXPECT_THAT(view({12}), HasSubstr("as many elements"));
}

TEST(Split, GivesEqualParts) {
  const auto split = [](int64_t parts) {
    return ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 6}},
                      [&](GraphBuilder& b, ValueId x) { return b.Split("s", x, parts).back(); });
  };
  EXPECT_EQ(split(3), "float32[B, 2]");
  EXPECT_EQ(split(4), "test layer s: cannot be split into 4 equal parts");
  EXPECT_EQ(split(0), "test layer s: cannot be split into 0 equal parts");
}

TEST(GraphBuilder, AModuleThatIsCalledAgainHasOneSetOfParametersAndBuffers) {
  GraphBuilder b("twice");
  ValueId x = b.Input("images", Images(2, 4));
  for (int i = 0; i < 2; ++i) {
    x = b.BatchNorm2d("norm", b.Conv2d("conv", x, {.out_channels = 2, .kernel_size = 3, .padding = 1}));
  }
  b.Output("y", x);
  const Graph graph = std::move(b).Build().value();
  EXPECT_EQ(graph.nodes().size(), 4u);
  EXPECT_EQ(graph.parameters().size(), 4u);
  EXPECT_EQ(graph.buffers().size(), 2u);
  ASSERT_EQ(graph.batch_counters().size(), 1u);
  EXPECT_EQ(graph.batch_counters()[0].name, "norm.num_batches_tracked");
  EXPECT_EQ(graph.value(graph.batch_counters()[0].running_mean).name, "norm.running_mean");
  for (const size_t first : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(graph.nodes()[first].ValueOf("weight"), graph.nodes()[first + 2].ValueOf("weight"));
  }
}

TEST(GraphBuilder, AModuleOfAnotherShapeUnderAKnownPathIsRefused) {
  EXPECT_EQ(ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 4}},
                       [](GraphBuilder& b, ValueId x) { return b.Linear("l", b.Linear("l", x, 5), 5); }),
            "test layer l.weight: is there already, with another shape");
}

TEST(BinaryCrossEntropy, NeedsTargetsOfTheLogitsShape) {
  const auto loss = [](int64_t outputs) {
    return ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 4}}, [&](GraphBuilder& b, ValueId x) {
      return b.BinaryCrossEntropy("bce", b.Linear("l", x, outputs), b.OnesLike("ones", x));
    });
  };
  EXPECT_EQ(loss(4), "float32[]");
  EXPECT_EQ(loss(3), "test layer bce: binary cross entropy needs logits and targets of one shape");
}

TEST(Mul, RepeatsWhatHasOnes) {
  const auto scaled = [](Shape by) {
    return ShapeAfter(Images(3, 4), [&](GraphBuilder& b, ValueId x) {
      return b.Mul("m", x, b.Parameter("by", by, Initializer::Constant(1)));
    });
  };
  EXPECT_EQ(scaled({3, 1, 1}), "float32[B, 3, 4, 4]");
  EXPECT_EQ(scaled({4}), "float32[B, 3, 4, 4]");
  EXPECT_EQ(scaled({3, 1}), "test layer m: adds or multiplies tensors of different shapes");
}

TEST(Squeeze, UndoesUnsqueeze) {
  const auto shape = [](auto layer) { return ShapeAfter(Images(3, 4), layer); };
  EXPECT_EQ(shape([](GraphBuilder& b, ValueId x) { return b.Unsqueeze("u", x, 1); }), "float32[B, 1, 3, 4, 4]");
  EXPECT_EQ(shape([](GraphBuilder& b, ValueId x) { return b.Unsqueeze("u", x, 4); }), "float32[B, 3, 4, 4, 1]");
  EXPECT_EQ(shape([](GraphBuilder& b, ValueId x) { return b.Unsqueeze("u", x, 5); }),
            "test layer u: there is no such dimension");
  EXPECT_EQ(shape([](GraphBuilder& b, ValueId x) { return b.Squeeze("s", b.Unsqueeze("u", x, 2), 2); }),
            "float32[B, 3, 4, 4]");
  EXPECT_EQ(shape([](GraphBuilder& b, ValueId x) { return b.Squeeze("s", x, 1); }),
            "test layer s: a dimension that is left out is of size 1");
}

TEST(Recurrent, GivesAStateAPositionAndHasPythonsParameters) {
  GraphBuilder b("test");
  const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 6, 3}});
  const ValueId start = b.RecurrentStart("rnn", x, 4);
  b.Output("lstm", b.Recurrent("rnn", x, start, RecurrentCell::kLstm, "l0"));
  b.Output("gru", b.Recurrent("rnn", x, start, RecurrentCell::kGru, "l0_reverse"));
  const Graph graph = std::move(b).Build().value();
  EXPECT_EQ(ToText(graph.type(start)), "float32[1, B, 4]");
  EXPECT_EQ(ToText(graph.type(*graph.FindOutput("lstm"))), "float32[B, 6, 4]");
  std::string parameters;
  for (const State& parameter : graph.parameters()) {
    absl::StrAppend(&parameters, parameter.name, " ", ToText(graph.type(parameter.value)), "\n");
    EXPECT_EQ(parameter.initializer.UniformBound(), 0.5) << parameter.name;
  }
  EXPECT_EQ(parameters,
            "rnn.weight_ih_l0 float32[16, 3]\nrnn.weight_hh_l0 float32[16, 4]\nrnn.bias_ih_l0 float32[16]\n"
            "rnn.bias_hh_l0 float32[16]\nrnn.weight_ih_l0_reverse float32[12, 3]\n"
            "rnn.weight_hh_l0_reverse float32[12, 4]\nrnn.bias_ih_l0_reverse float32[12]\n"
            "rnn.bias_hh_l0_reverse float32[12]\n");
}

TEST(Positions, AreTakenOfRowsOfSeveralLengths) {
  const TensorType rows = {Dtype::kFloat32, {Dim::Batch(), 6, 3}};
  const auto take = [&](TensorType mask) {
    return ShapeAfter(rows, [&](GraphBuilder& b, ValueId x) {
      return b.TakePositions("p", x, b.ReversedPositions("p", b.Input("mask", mask)));
    });
  };
  EXPECT_EQ(take({Dtype::kBool, {Dim::Batch(), 6}}), "float32[B, 6, 3]");
  EXPECT_EQ(take({Dtype::kInt64, {Dim::Batch(), 6}}), "test layer p: positions are reversed by a mask (B, T), bool");
}

TEST(Concat, JoinsAlongOneDimension) {
  const auto join = [](int64_t dim, int64_t rows) {
    return ShapeAfter(Images(3, 4), [&](GraphBuilder& b, ValueId x) {
      return b.Concat("c", {x, b.Input("y", {Dtype::kFloat32, {Dim::Batch(), 5, rows, 4}})}, dim);
    });
  };
  EXPECT_EQ(join(1, 4), "float32[B, 8, 4, 4]");
  EXPECT_EQ(join(1, 3), "test layer c: what is joined is of one size in all other dimensions");
  EXPECT_EQ(join(2, 4), "test layer c: what is joined is of one size in all other dimensions");
  EXPECT_EQ(join(0, 4), "test layer c: there is no such dimension to join");
}

TEST(Select, TakesADimensionAway) {
  const auto entry = [](int64_t dim, int64_t index) {
    return ShapeAfter(Images(3, 4), [&](GraphBuilder& b, ValueId x) { return b.Select("s", x, dim, index); });
  };
  EXPECT_EQ(entry(1, 2), "float32[B, 4, 4]");
  EXPECT_EQ(entry(1, 3), "test layer s: there is no entry 3 in dimension 1");
  EXPECT_EQ(entry(0, 0), "test layer s: there is no entry 0 in dimension 0");
  EXPECT_EQ(entry(4, 0), "test layer s: there is no entry 0 in dimension 4");
}

TEST(Attention, TakesAMaskThatIsRepeated) {
  const auto masked = [](Dtype dtype, Shape mask, bool is_causal) {
    return ShapeAfter({Dtype::kFloat32, {Dim::Batch(), 2, 5, 4}}, [&](GraphBuilder& b, ValueId x) {
      return b.Attention("a", x, x, x, is_causal, b.Input("mask", {dtype, mask}));
    });
  };
  EXPECT_EQ(masked(Dtype::kBool, {Dim::Batch(), 1, 1, 5}, false), "float32[B, 2, 5, 4]");
  const char* const refused =
      "test layer a: a mask of attention that is not causal is bool and repeated to (B, heads, T, T)";
  EXPECT_EQ(masked(Dtype::kBool, {Dim::Batch(), 1, 1, 4}, false), refused);
  EXPECT_EQ(masked(Dtype::kFloat32, {Dim::Batch(), 1, 1, 5}, false), refused);
  EXPECT_EQ(masked(Dtype::kBool, {Dim::Batch(), 1, 1, 5}, true), refused);
}

TEST(Vocabulary, IsTheSmallestTableThatAnInputChoosesFrom) {
  GraphBuilder b("test");
  const ValueId tokens = b.Input("tokens", {Dtype::kInt64, {Dim::Batch(), 5}});
  b.Input("unread", {Dtype::kInt64, {Dim::Batch(), 5}});
  const ValueId wide = b.Embedding("wide", tokens, b.Parameter("wide", {9, 4}, Initializer::Normal(1)));
  const ValueId narrow = b.Embedding("narrow", tokens, b.Parameter("narrow", {7, 4}, Initializer::Normal(1)));
  b.Output("y", b.Add("sum", wide, narrow));
  const Graph graph = std::move(b).Build().value();
  EXPECT_EQ(VocabularyOf(graph, "tokens"), 7);
  EXPECT_EQ(VocabularyOf(graph, "unread"), std::nullopt);
  EXPECT_EQ(VocabularyOf(graph, "absent"), std::nullopt);
}

TEST(Vocabulary, OfAnInputInAnotherShape_IsThatOfTheInput) {
  GraphBuilder b("test");
  const ValueId tokens = b.Input("tokens", {Dtype::kInt64, {Dim::Batch(), 6}});
  const ValueId pairs = b.View("pairs", b.View("same", tokens, {Dim::Batch(), 6}), {Dim::Batch(2), 3});
  b.Output("y", b.Embedding("table", pairs, b.Parameter("table", {7, 4}, Initializer::Normal(1))));
  EXPECT_EQ(VocabularyOf(std::move(b).Build().value(), "tokens"), 7);
}

TEST(Vocabulary, OfAPartOfAnInput_HoldsForThatPartAlone) {
  GraphBuilder b("test");
  const ValueId columns = b.Input("columns", {Dtype::kInt64, {Dim::Batch(), 2}});
  const ValueId first = b.Unsqueeze("first", b.Select("first", columns, 1, 0), 1);
  const ValueId second = b.Unsqueeze("second", b.Select("second", columns, 1, 1), 1);
  b.Output("x", b.Embedding("few", first, b.Parameter("few", {3, 4}, Initializer::Normal(1))));
  b.Output("y", b.Embedding("many", second, b.Parameter("many", {90, 4}, Initializer::Normal(1))));
  EXPECT_EQ(VocabularyOf(std::move(b).Build().value(), "columns"), std::nullopt);
}

TEST(Linear, InitialisedAsGivenHasABiasOfZeros) {
  GraphBuilder b("test");
  b.Output("y", b.Linear("l", b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 6}}), 9, Initializer::Normal(0.02)));
  const Graph graph = std::move(b).Build().value();
  ASSERT_EQ(graph.parameters().size(), 2);
  EXPECT_EQ(graph.parameters()[0].initializer.bound, 0.02);
  EXPECT_EQ(graph.parameters()[1].initializer.kind, Initializer::Kind::kConstant);
  EXPECT_EQ(graph.parameters()[1].initializer.value, 0);
}

TEST(GraphBuilder, TheFirstErrorStays) {
  EXPECT_THAT(ShapeAfter(Images(1, 4),
                         [](GraphBuilder& b, ValueId x) {
                           return b.Linear("second", b.Relu("", b.MaxPool2d("first", x, {.kernel_size = 9})), 0);
                         }),
              HasSubstr("layer first"));
}

TEST(OpTable, IsOrderedAndFindsEveryRow) {
  const OpRow* before = nullptr;
  for (const OpRow& row : AllOps()) {
    EXPECT_TRUE(before == nullptr || before->op < row.op) << row.op;
    EXPECT_EQ(FindOp(row.op), &row);
    before = &row;
  }
  EXPECT_EQ(FindOp("aten.exponential_.default"), nullptr);
  EXPECT_EQ(FindOp(""), nullptr);
}

TEST(OpTable, ClassesAreThoseOfThePolicy) {
  EXPECT_EQ(FindOp("aten.linear.default")->op_class, OpClass::kLower);
  EXPECT_EQ(FindOp("aten.cross_entropy_loss.default")->op_class, OpClass::kFp32);
  EXPECT_EQ(FindOp("aten.add.Tensor")->op_class, OpClass::kPromote);
  EXPECT_EQ(FindOp("aten.relu.default")->op_class, OpClass::kAsInput);
  EXPECT_EQ(OpClassName(OpClass::kBanned), "banned");
}

}  // namespace
}  // namespace ampd::graph
