// Tests the import of exported models of two networks, which the GAN head trains against each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "graph/losses.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "tests/graph/exported/exported_gan.h"

namespace ampd::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<ImportedPrograms> Imported(const json& model, const ImportOptions& options = {.head = Head::kGan}) {
  const auto exported = ParseExportedModel(model.dump());
  return exported.ok() ? ImportPrograms(*exported, options) : exported.status();
}

TEST(ImportGan, ItsOutputsAreTheLossesOfItsNetworks) {
  const auto programs = Imported(Gan());
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(HeadOf(programs->train), std::nullopt) << "nothing makes a loss of it";
  const std::vector<Loss> losses = LossesOf(programs->train);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].output, "discriminator_loss");
  EXPECT_EQ(losses[1].output, "generator_loss");
  EXPECT_EQ(programs->train.parameters().size(), 5u);
  EXPECT_EQ(programs->eval.outputs().size(), 2u);
}

TEST(ImportGan, AStepCountsANormOfBothLossesOnce) {
  const Graph model = Imported(Gan())->train;
  const std::string discriminator = ToText(LossProgram(model, "discriminator_loss").value());
  const std::string generator = ToText(LossProgram(model, "generator_loss").value());
  EXPECT_THAT(discriminator, HasSubstr("running_mean=None, running_var=None, training=True"));
  EXPECT_THAT(generator, HasSubstr("running_mean=%generator.1.running_mean"));
  EXPECT_THAT(generator, Not(HasSubstr("aten.detach.default")));
}

// If only one loss uses a norm, the program of that loss updates the norm's statistics.
TEST(ImportGan, ANormOfOneLossCountsThere) {
  json model = Gan();
  AddGanNorm(model, "images", "seen");
  GraphOf(model)["nodes"].insert(GraphOf(model)["nodes"].begin(), GraphOf(model)["nodes"].back());
  GraphOf(model)["nodes"].erase(GraphOf(model)["nodes"].size() - 1);
  for (json& node : GraphOf(model)["nodes"]) {
    if (node["outputs"][0]["as_tensor"]["name"] == "of_real") {
      node["inputs"][0]["arg"] = Named("seen");
    }
  }
  const auto programs = Imported(model);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_THAT(ToText(LossProgram(programs->train, "discriminator_loss").value()),
              HasSubstr("input=%images, weight=%generator.1.weight, bias=%generator.1.bias, "
                        "running_mean=%generator.1.running_mean"));
}

TEST(ImportGan, WhatDoesNotTrainTwoNetworksIsTheSpecs) {
  const auto rename = [](const std::string& before, const std::string& after) {
    return [=](json& model) {
      for (json& input : InputsOf(model)) {
        if (input.contains("parameter") && input["parameter"]["parameter_name"] == before) {
          input["parameter"]["parameter_name"] = after;
        }
      }
      model["weights"]["config"][after] = model["weights"]["config"][before];
    };
  };
  const auto read = [](const std::string& result, const std::string& input) {
    return [=](json& model) {
      for (json& node : GraphOf(model)["nodes"]) {
        if (node["outputs"][0]["as_tensor"]["name"] == result) {
          node["inputs"][0]["arg"] = Named(input);
        }
      }
    };
  };
  struct Case {
    std::function<void(json&)> change;
    std::string message;
  };
  const Case cases[] = {
      {rename("discriminator.weight", "critic.weight"),
       "the head GAN trains the parameters of the module \"discriminator\" by the discriminator's loss, and the model "
       "has "
       "none that require a gradient"},
      {rename("generator.1.bias", "offset"), "generator\", and offset is of neither; freeze it"},
      {read("of_fake", "constant"), "is a parameter of the generator, whose loss gives it no gradient"},
      {[](json& model) { GraphOf(model)["outputs"][1] = Named("of_fake"); },
       "the model's output 1 is float32[B, 1]; the head GAN takes two scalars, float32[], the losses of discriminator "
       "and "
       "generator"},
      {[](json& model) { GraphOf(model)["outputs"][0] = Named("of_fake"); },
       "model.exported.output 0 is float32[B, 1]; the head GAN takes two scalars"},
      {[](json& model) {
         for (json& input : InputsOf(model)) {
           if (input.contains("user_input") && input["user_input"]["arg"] == Named("noise")) {
             input["user_input"]["arg"] = Named("labels");
           }
         }
         json& graph = GraphOf(model);
         graph["tensor_values"]["labels"] = graph["tensor_values"]["noise"];
         for (json& input : graph["inputs"]) {
           input = input == Named("noise") ? Named("labels") : input;
         }
         graph["nodes"][0]["inputs"][0]["arg"] = Named("labels");
       },
       "the model takes labels, which the head GAN has not"},
  };
  for (const Case& one : cases) {
    json model = Gan();
    one.change(model);
    const absl::Status status = Imported(model).status();
    EXPECT_EQ(ReasonOf(status), "SPEC_ERROR") << one.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.message));
  }
  EXPECT_THAT(std::string(Imported(Gan(), {.output = 1, .head = Head::kGan}).status().message()),
              HasSubstr("the program has no tensor as its output 2; it has 2 outputs"));
}

TEST(ImportGan, NoiseIsOfNumbersASample) {
  json model = Gan();
  GraphOf(model)["tensor_values"]["noise"] = Tensor({kGanFeatures, kGanFeatures});
  EXPECT_EQ(Imported(model).status().message(),
            "the model's input noise is float32[4, 4]; the head GAN draws float32[B, ...]");
}

// A norm that the model calls several times has one batch counter for all calls.
TEST(ImportGan, BatchesThatAreCountedTwiceHaveOneCounter) {
  json model = Gan();
  AddBuffer(model, "b_count", "generator.1.num_batches_tracked", {}, kLong);
  const json one = {{"as_int", 1}};
  AddCall(model, "add_.Tensor", {{"self", Named("b_count")}, {"other", one}}, "count", "generator.1", "m.BatchNorm",
          {});
  AddCall(model, "add_.Tensor", {{"self", Named("count")}, {"other", one}}, "count_1", "generator.1", "m.BatchNorm",
          {});
  for (const char* tensor : {"count", "count_1"}) {
    GraphOf(model)["tensor_values"][tensor] = Tensor({}, false, kLong);
  }
  const auto programs = Imported(model);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(programs->train.FindInput("b_count"), std::nullopt);
  EXPECT_EQ(programs->train.buffers().size(), 2u);
  ASSERT_EQ(programs->train.batch_counters().size(), 1u);
  EXPECT_EQ(programs->train.batch_counters()[0].name, "generator.1.num_batches_tracked");
  GraphOf(model)["outputs"].push_back(Named("count_1"));
  EXPECT_FALSE(Imported(model, {.output = 2}).ok());
}

}  // namespace
}  // namespace ampd::graph
