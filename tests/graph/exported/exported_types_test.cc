#include "graph/exported/exported_types.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/exported/size_expression.h"

namespace ampd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBatchSymbol[] = "Symbol('b', positive=True, integer=True)";
constexpr char kLength[] = "Symbol('l', positive=True, integer=True)";

std::string Of(const std::string& function, const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) {
    text += (text.empty() ? "" : ", ") + argument;
  }
  return function + "(" + text + ")";
}

TEST(SizeExpression, IsANumberOrAMultipleOfASymbol) {
  const std::string three = "Integer(3)";
  const std::string minus_one = "Integer(-1)";
  const std::string square = Of("Pow", {kLength, "Integer(2)"});
  const SymbolValues values = {{"l", 7}};
  for (const auto& [text, expected] : std::vector<std::pair<std::string, ExportedSize>>{
           {three, {3, "", ""}},
           {kBatchSymbol, {1, "b", ""}},
           {kLength, {7, "", ""}},
           {Of("Mul", {three, kBatchSymbol, kLength}), {21, "b", ""}},
           {Of("Mul", {minus_one, kLength}), {-7, "", ""}},
           {Of("Add", {kLength, minus_one}), {6, "", ""}},
           {Of("Add", {Of("Mul", {three, kBatchSymbol}), kBatchSymbol}), {4, "b", ""}},
           {Of("Mul", {three, square}), {147, "", ""}},
           {Of("Min", {"Integer(32)", Of("Mul", {three, kLength})}), {21, "", ""}},
           {Of("Max", {three, kLength}), {7, "", ""}},
           {Of("FloorDiv", {kLength, "Integer(2)"}), {3, "", ""}},
           {Of("Mod", {kLength, "Integer(4)"}), {3, "", ""}},
           {Of("PowByNatural", {kLength, "Integer(2)"}), {49, "", ""}},
           {Of("CleanDiv", {Of("Mul", {"Integer(4)", kLength}), "Integer(4)"}), {7, "", ""}},
           {Of("FloorDiv", {Of("Mul", {minus_one, kLength}), "Integer(4)"}), {-2, "", ""}},
           {Of("FloorDiv", {kLength, "Integer(-4)"}), {-2, "", ""}},
           {Of("FloorDiv", {Of("Mul", {minus_one, kLength}), "Integer(7)"}), {-1, "", ""}},
           {Of("PythonMod", {Of("Mul", {minus_one, kLength}), "Integer(8)"}), {1, "", ""}},
           {Of("PythonMod", {kLength, "Integer(-4)"}), {-1, "", ""}},
           {Of("PythonMod", {Of("Mul", {minus_one, kLength}), "Integer(7)"}), {0, "", ""}}}) {
    EXPECT_EQ(ParseSizeExpression(text, values), expected) << text;
  }
}

TEST(SizeExpression, WhatItDoesNotKnowItGivesBack) {
  std::string deep = kLength;
  for (int i = 0; i < 100; ++i) {
    deep = Of("Add", {deep, "Integer(1)"});
  }
  for (const std::string& text : {std::string(),
                                  std::string("Integer("),
                                  std::string("Integer(x)"),
                                  std::string("Symbol(l)"),
                                  std::string("Symbol('l'"),
                                  std::string("Mul()"),
                                  std::string("Integer(2)Integer(2)"),
                                  std::string("Integer(99999999999999999)"),
                                  Of("Sin", {kLength}),
                                  Of("Mul", {kBatchSymbol, kBatchSymbol}),
                                  Of("Add", {kBatchSymbol, "Integer(1)"}),
                                  Of("Pow", {"Integer(2)", "Integer(60)"}),
                                  Of("Pow", {kLength, "Integer(-1)"}),
                                  Of("FloorDiv", {kLength, "Integer(0)"}),
                                  Of("PythonMod", {kLength, "Integer(0)"}),
                                  Of("Mod", {Of("Mul", {"Integer(-1)", kLength}), "Integer(8)"}),
                                  Of("FloorDiv", {kBatchSymbol, "Integer(2)"}),
                                  Of("Min", {kBatchSymbol, kLength}),
                                  Of("Mul", {"Integer(1099511627776)", "Integer(1099511627776)"}),
                                  deep}) {
    const ExportedSize size = ParseSizeExpression(text, {{"l", 7}});
    EXPECT_EQ(size, (ExportedSize{1, "", text}));
  }
}

TEST(SizeRelation, ComparesNumbers) {
  for (const auto& [relation, less, equal, more] :
       std::vector<std::tuple<std::string, bool, bool, bool>>{{"Equality", false, true, false},
                                                              {"Unequality", true, false, true},
                                                              {"StrictLessThan", true, false, false},
                                                              {"LessThan", true, true, false},
                                                              {"StrictGreaterThan", false, false, true},
                                                              {"GreaterThan", false, true, true}}) {
    for (const auto& [length, holds] : {std::pair(6, less), {7, equal}, {8, more}}) {
      EXPECT_EQ(HoldsFor(Of(relation, {kLength, "Integer(7)"}), {{"l", length}}), holds) << relation << length;
    }
  }
}

TEST(SizeRelation, WhatItDoesNotKnowIsNeitherTrueNorFalse) {
  for (const std::string& text :
       {std::string(), std::string("Equality("), Of("Equality", {kLength}), Of("Equality", {kBatchSymbol, kLength}),
        Of("Equality", {kLength, kLength, kLength}), Of("Equality", {kLength, kLength}) + ")",
        Of("Mod", {kLength, kLength}), Of("And", {Of("Equality", {kLength, kLength}), kLength})}) {
    EXPECT_EQ(HoldsFor(text, {{"l", 7}}), std::nullopt) << text;
  }
}

TEST(SizeRelation, BoundsTheSymbolThatItComparesWithANumber) {
  const std::string twice = Of("Mul", {"Integer(2)", kBatchSymbol});
  using Bound = std::optional<int64_t>;
  for (const auto& [relation, least, most] :
       std::vector<std::tuple<std::string, Bound, Bound>>{{"Equality", 4, 3},
                                                          {"Unequality", {}, {}},
                                                          {"StrictLessThan", {}, 3},
                                                          {"LessThan", {}, 3},
                                                          {"StrictGreaterThan", 4, {}},
                                                          {"GreaterThan", 4, {}}}) {
    const SizeBounds bounds = BoundsOf(*ParseSizeRelation(Of(relation, {twice, "Integer(7)"}), {}), "b");
    EXPECT_EQ(bounds.least, least) << relation;
    EXPECT_EQ(bounds.most, most) << relation;
  }
  const auto turned = ParseSizeRelation(Of("StrictLessThan", {"Integer(8)", twice}), {});
  EXPECT_EQ(BoundsOf(*turned, "b").least, 5);
  EXPECT_EQ(BoundsOf(*turned, "b").most, std::nullopt);
  EXPECT_EQ(BoundsOf(*turned, "l").least, std::nullopt);
}

TEST(SizeRelation, NamesItsSymbols) {
  EXPECT_THAT(SymbolsIn(Of("Equality", {Of("Odd", {kLength, kBatchSymbol}), kLength})), ElementsAre("b", "l"));
  EXPECT_THAT(SymbolsIn("Equality(Integer(1), Integer(1))"), IsEmpty());
}

// A program with the inputs ids (B, L) and mask (B, M), and tensors whose sizes are mostly computed from the sizes of
// these inputs.
ExportedProgram Program() {
  ExportedProgram program;
  const ExportedSize batch{1, "b", ""};
  const ExportedSize length{1, "l", ""};
  program.graph.tensors["ids"] = {Dtype::kInt64, false, {batch, length}};
  program.graph.tensors["mask"] = {Dtype::kInt64, false, {batch, ExportedSize{1, "m", ""}}};
  program.graph.tensors["flat"] = {Dtype::kFloat32, false, {{1, "", Of("Mul", {kBatchSymbol, kLength})}, {8, "", ""}}};
  program.graph.tensors["shorter"] = {Dtype::kFloat32, false, {batch, {1, "", Of("Add", {kLength, "Integer(-3)"})}}};
  program.graph.tensors["odd"] = {Dtype::kFloat32, false, {{1, "", Of("Mul", {kBatchSymbol, kBatchSymbol})}}};
  program.graph.tensors["other"] = {Dtype::kFloat32, false, {batch, ExportedSize{1, "height", ""}}};
  program.graph.numbers["start"] = {-1, "l", ""};
  for (const char* const input : {"ids", "mask"}) {
    program.inputs.push_back({ExportedInput::Kind::kUser, input, ""});
  }
  program.ranges["l"] = {2, 64};
  return program;
}

TEST(ExportedTypes, TheLengthOfATextsSamplesIsTheJobs) {
  const ExportedProgram program = Program();
  const auto types = ExportedTypes::Of(program, 5);
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->TypeOf("ids")->shape, (Shape{Dim::Batch(), 5}));
  EXPECT_EQ(types->TypeOf("mask")->shape, (Shape{Dim::Batch(), 5}));
  EXPECT_EQ(types->TypeOf("flat")->shape, (Shape{Dim::Batch(5), 8}));
  EXPECT_EQ(types->TypeOf("shorter")->shape, (Shape{Dim::Batch(), 2}));
  EXPECT_EQ(*types->DimOf(SizeName{"start"}, "arange"), Dim(-5));
}

TEST(ExportedTypes, WhatIsNeitherANumberNorABatchIsNamed) {
  const ExportedProgram program = Program();
  const auto types = ExportedTypes::Of(program, 5);
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_THAT(std::string(types->TypeOf("odd").status().message()), HasSubstr("odd has a size Mul(Symbol('b'"));
  EXPECT_THAT(std::string(types->TypeOf("other").status().message()),
              HasSubstr("other has a size height, which is no"));
  const auto without = ExportedTypes::Of(program);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(std::string(without->TypeOf("ids").status().message()),
              HasSubstr("ids has a size l, which is no number"));
  const auto too_short = ExportedTypes::Of(program, 2);
  ASSERT_TRUE(too_short.ok()) << too_short.status();
  EXPECT_THAT(std::string(too_short->TypeOf("shorter").status().message()), HasSubstr("shorter has the size -1"));
}

TEST(ExportedTypes, ALengthThatTheProgramWasNotExportedForIsTheSpecs) {
  const ExportedProgram program = Program();
  for (const int64_t length : {1, 65}) {
    const absl::Status status = ExportedTypes::Of(program, length).status();
    EXPECT_EQ(ReasonOf(status), "SPEC_ERROR");
    EXPECT_THAT(std::string(status.message()), HasSubstr("the input ids of the model was exported for 2 to 64"));
  }
  EXPECT_TRUE(ExportedTypes::Of(program, 64).ok());
}

TEST(ExportedTypes, ALengthThatTheModelWouldGoAnotherWayWithIsTheSpecs) {
  ExportedProgram program = Program();
  program.graph.relations["sym_not"] =
      Of("Unequality", {Of("Mul", {"Integer(2)", Of("FloorDiv", {kLength, "Integer(2)"})}), kLength});
  program.graph.nodes.push_back({.target = "torch.ops.aten._assert_scalar.default",
                                 .arguments = {{"self", SizeName{"sym_not"}}, {"assert_msg", std::string("is odd")}},
                                 .tensors = {}});
  EXPECT_TRUE(ExportedTypes::Of(program).ok()) << "of no length yet";
  EXPECT_TRUE(ExportedTypes::Of(program, 5).ok());
  const absl::Status status = ExportedTypes::Of(program, 6).status();
  EXPECT_EQ(ReasonOf(status), "SPEC_ERROR");
  EXPECT_THAT(std::string(status.message()), HasSubstr("length is 6, which the model was not exported for: is odd"));
  program.graph.relations["sym_not"] = Of("Unequality", {kLength, "Integer(6)"});
  EXPECT_TRUE(ExportedTypes::Of(program, 6).ok()) << "a question of the layout";
}

// Adds the assertion that the relation holds.
void Assert(ExportedProgram& program, const std::string& relation) {
  const std::string name = "asserted_" + std::to_string(program.graph.nodes.size());
  program.graph.relations[name] = relation;
  program.graph.nodes.push_back(
      {.target = "torch.ops.aten._assert_scalar.default", .arguments = {{"self", SizeName{name}}}, .tensors = {}});
}

// The padding that fills a length up to a multiple of 8 is (-length) % 8 in Python.
TEST(ExportedTypes, ALengthIsJudgedByPythonsRemainder) {
  ExportedProgram program = Program();
  Assert(program, Of("Equality", {Of("PythonMod", {Of("Mul", {"Integer(-1)", kLength}), "Integer(8)"}), "Integer(0)"}));
  EXPECT_TRUE(ExportedTypes::Of(program, 24).ok());
  EXPECT_EQ(ReasonOf(ExportedTypes::Of(program, 20).status()), "SPEC_ERROR");
}

TEST(ExportedTypes, AnAssertionThatIsNotKnownHoldsOnlyForTheLengthOfTheExport) {
  ExportedProgram program = Program();
  Assert(program, Of("Equality", {Of("Odd", {kLength}), "Integer(0)"}));
  program.examples["l"] = 16;
  EXPECT_TRUE(ExportedTypes::Of(program, 16).ok());
  const absl::Status status = ExportedTypes::Of(program, 20).status();
  EXPECT_EQ(ReasonOf(status), "SPEC_ERROR");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("length is 20, and whether the model was exported for it is not known: ampd can't evaluate the "
                        "model's assertion Equality(Odd(Symbol('l', positive=True, integer=True)), Integer(0)); use "
                        "the length of the export's example inputs (16), or export"));
  program.examples.clear();
  EXPECT_FALSE(ExportedTypes::Of(program, 16).ok()) << "the file does not say the export's length";
}

TEST(ExportedTypes, AnAssertionOfTheBatchSaysNothingOfTheLength) {
  ExportedProgram program = Program();
  Assert(program, Of("Equality", {Of("Odd", {kLength, kBatchSymbol}), "Integer(0)"}));
  EXPECT_TRUE(ExportedTypes::Of(program, 20).ok());
}

TEST(ExportedTypes, TheBatchSizesAreThoseOfTheExport) {
  const auto range = [](const ExportedProgram& program) { return ExportedTypes::Of(program, 8)->batch_range(); };
  ExportedProgram program = Program();
  EXPECT_EQ(range(program), BatchRange());
  program.ranges["b"] = {4, 64};
  EXPECT_EQ(range(program), (BatchRange{4, 64}));
  Assert(program, Of("LessThan", {Of("Mul", {kBatchSymbol, kLength}), "Integer(100)"}));
  EXPECT_EQ(range(program), (BatchRange{4, 12})) << "of 8 positions each, at most 100 in a batch";
  program.ranges["b"].least = 2;
  EXPECT_EQ(range(program), (BatchRange{1, 12})) << "torch writes 2 where the model names no least size";
}

}  // namespace
}  // namespace ampd::graph
