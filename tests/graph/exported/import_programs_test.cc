#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "tests/graph/exported/exported_linear.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(ImportPrograms, BothHaveAHeadAndSomethingToTrain) {
  const auto imported = [](const json& model, const ImportOptions& options) {
    return ImportPrograms(*ParseExportedModel(model.dump()), options);
  };
  ASSERT_TRUE(imported(Linear(), {}).ok()) << imported(Linear(), {}).status();
  EXPECT_TRUE(imported(Linear(), {.head = Head::kClassification}).ok());
  const absl::Status other = imported(Linear(), {.head = Head::kLanguageModel}).status();
  EXPECT_EQ(ReasonOf(other), "SPEC_ERROR");
  EXPECT_EQ(other.message(),
            "model.exported.output 0 is float32[B, 3]; the head LANGUAGE_MODEL takes float32[B, positions, "
            "vocabulary]");
  EXPECT_EQ(imported(Linear(), {.head = Head::kOwnLoss}).status().message(),
            "model.exported.output 0 is float32[B, 3]; the head OWN_LOSS takes a scalar, float32[]");
  for (const auto& [head, name] : {std::pair(Head::kRegression, "predictions"), {Head::kMultiLabel, "label_logits"}}) {
    const auto programs = imported(Linear(), {.head = head});
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_TRUE(programs->train.FindOutput(name).has_value());
    EXPECT_EQ(HeadOf(programs->eval), head);
  }
  json frozen = Linear();
  for (const char* tensor : {"p_w", "p_b"}) {
    GraphOf(frozen)["tensor_values"][tensor]["requires_grad"] = false;
  }
  EXPECT_EQ(imported(frozen, {}).status().message(), "the exported model has no parameter that requires a gradient");
}

TEST(ImportPrograms, AScalarIsTheModelsOwnLossWhereItIsCalledSo) {
  const InputNames names = {{"x", "images"}};
  const auto imported = [](const ImportOptions& options) {
    return ImportPrograms(*ParseExportedModel(WithOwnLoss().dump()), options);
  };
  const auto programs = imported({.head = Head::kOwnLoss, .inputs = names});
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(HeadOf(programs->train), Head::kOwnLoss);
  EXPECT_EQ(programs->train.value(programs->train.inputs()[1]).name, "labels");
  EXPECT_THAT(ToText(programs->train), HasSubstr("aten.mse_loss.default(self=%relu, target=%labels)"));
  EXPECT_EQ(imported({.inputs = names}).status().message(),
            "model.exported.output 0 is float32[]; without model.exported.head it is float32[B, classes] or "
            "float32[B, positions, vocabulary]; model.exported.head OWN_LOSS takes a scalar, float32[]");
  const absl::Status other = imported({.output = 1, .inputs = names}).status();
  EXPECT_EQ(ReasonOf(other), "SPEC_ERROR");
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("the model takes labels, which the head CLASSIFICATION compares with its output; set "
                        "model.exported.head to OWN_LOSS"));
}

// Returns the model of WithOwnLoss() with a second output: the sum of a mask, which is the number of labels.
json WithCount() {
  json model = WithOwnLoss();
  AddUserInput(model, "mask", {kBatch});
  json& graph = GraphOf(model);
  graph["nodes"].push_back(Call("sum.default", {{"self", Named("mask")}}, "count"));
  graph["tensor_values"]["count"] = Tensor({});
  graph["outputs"].push_back(Named("count"));
  model["programs"]["train"]["graph_module"]["signature"]["output_specs"].push_back(
      {{"user_output", {{"arg", Named("count")}}}});
  return model;
}

TEST(ImportPrograms, AnOutputSaysHowManyLabelsAnOwnLossIsTheMeanOf) {
  const auto imported = [](ImportOptions options) {
    options.inputs = {{"x", "images"}};
    return ImportPrograms(*ParseExportedModel(WithCount().dump()), options);
  };
  const auto programs = imported({.head = Head::kOwnLoss, .count_output = 2});
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_TRUE(programs->train.FindOutput(kLabelCount).has_value());
  EXPECT_EQ(LabelCountProgram(programs->train).value()->nodes().size(), 1u);
  EXPECT_THAT(ToText(WithLossHead(programs->train).value()), Not(HasSubstr("label_count")));
  EXPECT_THAT(ToText(WithEvalHead(programs->eval).value()), Not(HasSubstr("label_count")));
  EXPECT_EQ(imported({.head = Head::kOwnLoss, .count_output = 1}).status().message(),
            "model.exported.count_output 1 is no number of labels; that is a scalar of float32, int64 or int32");
  EXPECT_EQ(imported({.head = Head::kOwnLoss, .count_output = 0}).status().message(),
            "model.exported.count_output 0 depends on the parameter fc.weight; the number of labels follows from the "
            "model's inputs alone");
  EXPECT_EQ(imported({.head = Head::kOwnLoss, .count_output = 3}).status().message(),
            "model.exported.count_output is 3, and the program has no such tensor; it has 3 outputs");
}

// The layer with a dropout before the output, in training mode if `train` is true.
json WithDropout(bool train) {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["tensor_values"]["dropout"] = Tensor({kBatch, 3});
  graph["outputs"][0] = Named("dropout");
  graph["nodes"].push_back(Call("dropout.default",
                                {{"input", Named("relu")}, {"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", train}}}},
                                "dropout"));
  return model;
}

TEST(ImportEvalProgram, ALoneProgramIsTurnedOverAndAnOwnOneIsTaken) {
  json model = WithDropout(true);
  auto exported = ParseExportedModel(model.dump());
  EXPECT_THAT(ToText(*ImportProgram(*exported, exported->train)), HasSubstr("aten.dropout.default"));
  const Graph turned = ImportEvalProgram(*exported).value();
  EXPECT_THAT(ToText(turned), HasSubstr("output logits = %relu"));
  EXPECT_THAT(ToText(turned), Not(HasSubstr("dropout")));
  model["programs"]["eval"] = model["programs"]["train"];
  GraphOf(model, "eval")["outputs"][0] = Named("linear");
  exported = ParseExportedModel(model.dump());
  EXPECT_THAT(ToText(*ImportEvalProgram(*exported)), HasSubstr("output logits = %linear"));
}

TEST(ImportEvalProgram, OfTheFilesOwnKeepsTheDropoutThatTheModelKeeps) {
  json model = WithDropout(true);
  model["programs"]["eval"] = model["programs"]["train"];
  const auto own = [&model] {
    const auto exported = ParseExportedModel(model.dump());
    return ToText(WithEvalHead(ImportEvalProgram(*exported).value()).value());
  };
  EXPECT_THAT(own(), HasSubstr("aten.dropout.default(input=%relu, p=0.5, train=True)"));
  json off = WithDropout(false);
  GraphOf(model, "eval") = GraphOf(off);
  EXPECT_THAT(own(), Not(HasSubstr("aten.dropout")));
}

// Returns the layer of Linear(), followed by a batch norm without running statistics. torch.export writes such a norm
// in the same way in training and in evaluation mode.
json WithNormOfTheBatch() {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["tensor_values"]["norm"] = Tensor({kBatch, 3});
  graph["outputs"][0] = Named("norm");
  graph["nodes"].push_back(Call("batch_norm.default",
                                {{"input", Named("relu")},
                                 {"weight", {{"as_none", true}}},
                                 {"bias", {{"as_none", true}}},
                                 {"running_mean", {{"as_none", true}}},
                                 {"running_var", {{"as_none", true}}},
                                 {"training", {{"as_bool", true}}},
                                 {"momentum", {{"as_float", 0.1}}},
                                 {"eps", {{"as_float", 1e-5}}},
                                 {"cudnn_enabled", {{"as_bool", true}}}},
                                "norm"));
  return model;
}

TEST(ImportEvalProgram, ANormWithoutRunningStatisticsStaysAsItIs) {
  json model = WithNormOfTheBatch();
  const auto eval_head = [&model] {
    const auto exported = ParseExportedModel(model.dump());
    return ToText(WithEvalHead(ImportEvalProgram(*exported).value()).value());
  };
  EXPECT_THAT(eval_head(), HasSubstr("running_var=None, training=True"));
  model["programs"]["eval"] = model["programs"]["train"];
  EXPECT_THAT(eval_head(), HasSubstr("running_var=None, training=True")) << "of the file's own program";
}

TEST(ImportEvalProgram, HasTheStateOfTheTrainingProgram) {
  json model = Linear();
  AddState(model, Buffer("b_n", "bn.num_batches_tracked"), "b_n", "bn.num_batches_tracked", Tensor({}, false, kLong),
           Stored("weight_2", {}, kLong));
  model["programs"]["eval"] = model["programs"]["train"];  // The evaluation program neither reads nor writes the count.
  json& graph = GraphOf(model);
  graph["tensor_values"]["add_"] = Tensor({}, false, kLong);
  graph["nodes"].push_back(Call("add_.Tensor", {{"self", Named("b_n")}, {"other", {{"as_int", 1}}}}, "add_"));
  const auto exported = ParseExportedModel(model.dump());
  const Graph eval = ImportEvalProgram(*exported).value();
  EXPECT_TRUE(eval.buffers().empty());
  EXPECT_EQ(eval.parameters().size(), 2u);
}

TEST(ImportEvalProgram, ReadsConstantsOfItsOwn_WhichAreStateOfBothPrograms) {
  const auto exported = ParseExportedModel(WithInlineConstants().dump());
  ASSERT_TRUE(exported.ok()) << exported.status();
  const ImportedPrograms programs = ImportPrograms(*exported, {}).value();
  EXPECT_THAT(ToText(programs.eval), HasSubstr("aten.div.Tensor(self=%head, other=%lifted_tensor_0@eval)"));
  EXPECT_THAT(ToText(programs.train), HasSubstr("aten.mul.Tensor(self=%head, other=%lifted_tensor_0)"));
  EXPECT_THAT(ToText(programs.train), HasSubstr("buffer %lifted_tensor_0@eval: float32[] constant(0)\n"));
  EXPECT_THAT(ToText(programs.eval), Not(HasSubstr("lifted_tensor_1")));
}

TEST(ImportEvalProgram, ReadsTheTrainingProgramsConstantsWhereItHasNoneOfItsOwn) {
  json model = WithInlineConstants();
  model.erase("eval_constants");
  const auto exported = ParseExportedModel(model.dump());
  ASSERT_TRUE(exported.ok()) << exported.status();
  const ImportedPrograms programs = ImportPrograms(*exported, {}).value();
  EXPECT_THAT(ToText(programs.eval), HasSubstr("aten.div.Tensor(self=%head, other=%lifted_tensor_0)"));
  EXPECT_THAT(ToText(programs.train), Not(HasSubstr("@eval")));
}

TEST(ImportPrograms, WarnsOfEvaluationModeOnlyIfItIsTheFilesOnlyMode) {
  json model = WithDropout(false);
  const auto warnings = [&model] { return ImportPrograms(*ParseExportedModel(model.dump()), {}).value().warnings; };
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("exported in evaluation mode")));
  model["programs"]["eval"] = model["programs"]["train"];
  EXPECT_THAT(warnings(), IsEmpty()) << "its norms and dropout are frozen on purpose";
}

TEST(IsEvalMode, IsToldByDropoutAndNorms) {
  EXPECT_FALSE(IsEvalMode(*Import(Linear())));
  EXPECT_FALSE(IsEvalMode(*Import(WithDropout(true))));
  EXPECT_TRUE(IsEvalMode(*Import(WithDropout(false))));
  EXPECT_FALSE(IsEvalMode(*Import(WithNormOfTheBatch()))) << "it is the same in both modes";
}

}  // namespace
}  // namespace ampd::graph
