// Tests how admission checks jobs that train an uploaded, exported model that the server has read.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/admission/admission.h"
#include "tests/graph/exported/exported_gan.h"
#include "tests/graph/exported/exported_net.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using graph::Net;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

// Returns a job that trains Net on images (3, 8, 8) of 10 classes, changed by `change`.
v1::JobSpec SpecOf(const std::string& change = "") {
  v1::JobSpec spec = SmallSpec();
  v1::JobSpec changed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &changed)) << change;
  spec.mutable_model()->mutable_exported()->set_artifact(std::string(64, 'a'));
  v1::SyntheticSource& data = *spec.mutable_data()->mutable_train()->mutable_synthetic();
  data.clear_shape();
  if (!changed.data().train().has_synthetic()) {
    for (const int extent : {3, 8, 8}) {
      data.add_shape(extent);
    }
  }
  data.set_num_classes(10);
  spec.MergeFrom(changed);
  return spec;
}

absl::StatusOr<v1::JobSpec> Admitted(const json& model, const v1::JobSpec& spec) {
  const auto exported = graph::ParseExportedModel(model.dump());
  EXPECT_TRUE(exported.ok()) << exported.status();
  return exported.ok() ? AdmitSpec(spec, &*exported) : exported.status();
}

// Returns the violations that admission finds, each as "field: description".
std::vector<std::string> Wrong(const json& model, const v1::JobSpec& spec) {
  std::vector<std::string> wrong;
  const auto admitted = Admitted(model, spec);
  EXPECT_EQ(admitted.status().code(), absl::StatusCode::kInvalidArgument) << admitted.status();
  for (const FieldViolation& violation : ViolationsOf(admitted.status())) {
    wrong.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  return wrong;
}
std::vector<std::string> Wrong(const std::string& change) { return Wrong(Net(), SpecOf(change)); }

// Returns Net in which the ops with these results are replaced by ops that are not in the allow list.
json WithUnknownOps(const std::vector<std::string>& results) {
  json model = Net();
  for (json& node : graph::GraphOf(model)["nodes"]) {
    const std::string result = node["outputs"][0]["as_tensor"]["name"];
    if (std::find(results.begin(), results.end(), result) != results.end()) {
      node["target"] = "torch.ops.aten.odd_" + result + ".default";
    }
  }
  return model;
}

TEST(AdmitExported, AModelThatWasReadIsAdmittedAsOneThatWasNot) {
  const v1::JobSpec spec = SpecOf("precision {preset: 'bf16'} train {checkpoint_segments: 'body.?'}");
  const auto seen = Admitted(Net(), spec);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->ShortDebugString(), AdmitSpec(spec)->ShortDebugString())
      << "what is durable can't depend on the file";
}

TEST(AdmitExported, OpsThatModelsMayNotUseAreNamedWithTheirModulesAndLines) {
  EXPECT_THAT(Wrong(WithUnknownOps({"first"}), SpecOf()),
              ElementsAre("model.exported.artifact: aten.odd_first.default of body.0 (net.py:10) is not an op that "
                          "models may use"));
  json both = WithUnknownOps({"first", "third"});
  both["programs"]["eval"] = WithUnknownOps({"drop", "third"})["programs"]["train"];
  EXPECT_THAT(Wrong(both, SpecOf("name: 'Odd'")),
              ElementsAre(StartsWith("name: "), HasSubstr("aten.odd_first.default of body.0"),
                          HasSubstr("aten.odd_third.default of body.2"), HasSubstr("aten.odd_drop.default of drop")));
  EXPECT_TRUE(AdmitSpec(SpecOf()).ok()) << "unseen";
}

TEST(AdmitExported, NoMoreOpsAreNamedThanFitIntoAnAnswer) {
  json model = WithUnknownOps({"first"});
  json& nodes = graph::GraphOf(model)["nodes"];
  for (int i = 0; i < 30; ++i) {
    graph::AddCall(model, absl::StrCat("odd_", i, ".", std::string(10'000, 'x')), {{"self", graph::Named("x")}},
                   absl::StrCat("odd_", i), "", "", {graph::kBatch, 3, 8, 8});
  }
  ASSERT_EQ(nodes.size(), 41u);
  const std::vector<std::string> wrong = Wrong(model, SpecOf());
  EXPECT_THAT(wrong, SizeIs(8));
  for (const std::string& one : wrong) {
    EXPECT_LT(one.size(), 500u);
  }
}

TEST(AdmitExported, WhatTheHeadDoesNotTakeIsToldAsTheTrainerTellsIt) {
  EXPECT_THAT(Wrong("model {exported {head: LANGUAGE_MODEL}}"),
              ElementsAre(StartsWith("model.exported: model.exported.output 0 is float32[B, 10]; the head "
                                     "LANGUAGE_MODEL takes ")));
  EXPECT_THAT(Wrong("model {exported {output: 2}}"),
              ElementsAre("model.exported.artifact: the program has no tensor as its output 2; it has 2 outputs"));
}

TEST(AdmitExported, DataThatTheModelDoesNotTakeIsToldAsTheTrainerTellsIt) {
  EXPECT_THAT(Wrong("data {train {synthetic {shape: 3 shape: 9 shape: 8}}}"),
              ElementsAre("data.train.synthetic: a sample has 216 elements and the model takes 192"));
  EXPECT_THAT(Wrong("data {train {synthetic {shape: 8 shape: 8 shape: 3}}}"),
              ElementsAre(StartsWith("data.train.synthetic: an image is (8, 8, 3) and the model takes (3, 8, 8)")));
  EXPECT_THAT(Wrong("data {train {synthetic {shape: 192 num_classes: 11}}}"),
              ElementsAre("data.train.synthetic: the data has 11 classes and the model 10"));
  EXPECT_THAT(Wrong("data {train {tokens {path: 'a/b' sequence_length: 8}}}"),
              ElementsAre("data.train.tokens: the data has input_ids and the model takes images"));
  EXPECT_THAT(Wrong("data {eval {cifar {files: 'a/b'}}}"),
              ElementsAre("data.eval.cifar: a sample has 3072 elements and the model takes 192"));
  EXPECT_THAT(Wrong("model {exported {inputs {key: 'x' value: 'pictures'}}}"),
              ElementsAre("data.train.synthetic: the data has images and the model takes pictures"));
  EXPECT_TRUE(Admitted(Net(), SpecOf("data {train {idx {images: 'a/b' labels: 'a/c'}}}")).ok())
      << "what is in a file of the worker's it tells";
}

TEST(AdmitExported, ArraysOfAFileAreFieldsThatTheWorkerKnows) {
  const std::string renamed = "model {exported {inputs {key: 'x' value: 'pictures'}}} ";
  for (const std::string source : {"npz {file: 'a/b'}", "safetensors {file: 'a/b'}"}) {
    const auto admitted = Admitted(Net(), SpecOf(absl::StrCat(renamed, "data {train {", source, "}}")));
    EXPECT_TRUE(admitted.ok()) << admitted.status();
  }
  EXPECT_THAT(Wrong(renamed + "data {train {npz {images: 'a/b' labels: 'a/c'}}}"),
              ElementsAre("data.train.npz: the data has images and the model takes pictures"))
      << "two files have no names for others";
}

TEST(AdmitExported, AGanReadsNoLabelsAndIsNotEvaluated) {
  const std::string images = "data {train {idx {images: 'a/b'}}}";
  const std::string head = "model {exported {head: GAN}} ";
  const std::string gan = head + images;
  const auto seen = Admitted(graph::Gan(), SpecOf(gan));
  EXPECT_TRUE(seen.ok()) << seen.status();
  EXPECT_TRUE(AdmitSpec(SpecOf(gan)).ok()) << "unseen";
  EXPECT_THAT(
      Wrong(graph::Gan(), SpecOf(images)),
      ElementsAre(StartsWith("model.exported: model.exported.output 0 is float32[]; without model.exported.head"),
                  StartsWith("data.train.idx.labels: ")));
  const v1::JobSpec more =
      SpecOf(head + "data {train {idx {images: 'a/b'}} eval {idx {images: 'a/b'}}} train {replay_skipped: true}");
  EXPECT_THAT(Wrong(graph::Gan(), more), ElementsAre(StartsWith("data.eval: is set; model.exported is not evaluated"),
                                                     StartsWith("train.replay_skipped: would train the networks of "
                                                                "model.exported that were not skipped")));
  EXPECT_THAT(Wrong(Net(), SpecOf(gan)),
              ElementsAre("model.exported: model.exported.output 0 is float32[B, 10]; the head GAN takes two scalars, "
                          "float32[], the losses of discriminator and generator"));
  EXPECT_THAT(Wrong(graph::Gan(), SpecOf(head)),
              ElementsAre("data.train.synthetic: a sample has 192 elements and the model takes 4"));
}

TEST(AdmitExported, AShapeBeyondCountingIsWrongAndNothingElse) {
  EXPECT_THAT(Wrong("data {train {synthetic {shape: 4000000000000 shape: 4000000000000 shape: 3}}}"),
              ElementsAre(StartsWith("data.train.synthetic.shape: ")));
}

TEST(AdmitExported, ABoundLengthIsTheDatas) {
  constexpr char kLength[] = "Symbol('s5', positive=True, integer=True)";
  json model = Net();
  json& graph = graph::GraphOf(model);
  graph["tensor_values"]["x"] = graph::Tensor({graph::kBatch, kLength}, false, graph::kLong);
  const std::string texts = "data {train {tokens {path: 'a/b' sequence_length: 192}}}";
  EXPECT_THAT(Wrong(model, SpecOf(texts)), Not(testing::Contains(HasSubstr("has a size"))));
  EXPECT_THAT(Wrong(model, SpecOf("")), Contains(HasSubstr("has a size s5, which is no number")));
}

TEST(AdmitExported, APolicyThatCannotWorkIsRefused) {
  EXPECT_TRUE(Admitted(Net(), SpecOf("precision {preset: 'fp8'}")).ok()) << "its linear layers compute in FP8";
  json stem = Net();  // Net's first nodes alone.
  json& nodes = graph::GraphOf(stem)["nodes"];
  nodes.erase(nodes.begin() + 5, nodes.end());
  graph::GraphOf(stem)["outputs"] = json::array({graph::Named("flat")});
  EXPECT_TRUE(Admitted(stem, SpecOf("precision {preset: 'bf16'}")).ok());
  EXPECT_THAT(Wrong(stem, SpecOf("precision {preset: 'fp8'}")),
              ElementsAre("precision.preset: the model has no linear layer, and others do not compute in FP8"));
  EXPECT_THAT(Wrong("train {checkpoint_segments: 'nowhere.*'}"), ElementsAre(StartsWith("train.checkpoint_segments")));
}

// Returns Net with the argument `argument` of the node with this result changed to `number`.
json WithNumber(const std::string& result, const std::string& argument, const json& number) {
  json model = Net();
  for (json& node : graph::GraphOf(model)["nodes"]) {
    if (node["outputs"][0]["as_tensor"]["name"] == result) {
      for (json& input : node["inputs"]) {
        if (input["name"] == argument) {
          input["arg"] = number;
        }
      }
    }
  }
  return model;
}

TEST(AdmitExported, WhatPythonWouldHaveRefusedOfACallIsRefusedByItsModule) {
  EXPECT_THAT(Wrong(WithNumber("drop", "p", {{"as_float", 1.5}}), SpecOf()),
              ElementsAre(HasSubstr("its p is 1.5; it takes 0 to 1")));
  EXPECT_THAT(Wrong(WithNumber("norm", "eps", {{"as_float", 0.0}}), SpecOf()), ElementsAre(HasSubstr("its eps is 0")));
  EXPECT_THAT(Wrong(WithNumber("conv", "padding", {{"as_ints", {-1, 1}}}), SpecOf()),
              ElementsAre(HasSubstr("its padding is -1")));
}

// Returns Net with its ReLU replaced by a padding in this mode. The padding has width 0, so it changes no number.
json WithPadding(const std::string& mode) {
  json model = Net();
  for (json& node : graph::GraphOf(model)["nodes"]) {
    if (node["outputs"][0]["as_tensor"]["name"] == "relu") {
      node["target"] = "torch.ops.aten.pad.default";
      node["inputs"].push_back({{"name", "pad"}, {"arg", {{"as_ints", {0, 0, 0, 0}}}}, {"kind", 1}});
      node["inputs"].push_back({{"name", "mode"}, {"arg", {{"as_string", mode}}}, {"kind", 1}});
    }
  }
  return model;
}

TEST(AdmitExported, AnOpThatNoGpuComputesDeterministicallyIsRefusedUnlessTheJobAllowsIt) {
  EXPECT_THAT(Wrong(WithPadding("replicate"), SpecOf()),
              ElementsAre("train.deterministic: a padding that repeats the border (aten.pad.default in stem.2) has no "
                          "deterministic algorithm on a GPU: set train.deterministic to false, or resources.kind to "
                          "CPU"));
  EXPECT_THAT(Wrong(WithPadding("replicate"), SpecOf("resources {kind: GPU}")), SizeIs(1));
  EXPECT_TRUE(Admitted(WithPadding("replicate"), SpecOf("resources {kind: CPU}")).ok());
  const auto allowed = Admitted(WithPadding("replicate"), SpecOf("train {deterministic: false}"));
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  EXPECT_FALSE(allowed->train().deterministic());
  const auto constant = Admitted(WithPadding("constant"), SpecOf());
  ASSERT_TRUE(constant.ok()) << constant.status();
  EXPECT_TRUE(constant->train().deterministic()) << "the default is recorded in the job";
}

// The model's norm uses the statistics of the batch in evaluation, too. If the last batch of an evaluation has only one
// sample, each channel has only one value, so the job must be refused.
TEST(AdmitExported, ABatchOfAnEvaluationWithOneValueAChannelIsRefused) {
  json model = Net();
  graph::AddParameter(model, "p_scale2", "last.weight", {10});
  graph::AddCall(model, "batch_norm.default",
                 {{"input", graph::Named("head")},
                  {"weight", graph::Named("p_scale2")},
                  {"bias", {{"as_none", true}}},
                  {"running_mean", {{"as_none", true}}},
                  {"running_var", {{"as_none", true}}},
                  {"training", {{"as_bool", true}}},
                  {"momentum", {{"as_float", 0.1}}},
                  {"eps", {{"as_float", 1e-5}}},
                  {"cudnn_enabled", {{"as_bool", true}}}},
                 "last", "last", "torch.nn.modules.batchnorm.BatchNorm1d", {graph::kBatch, 10});
  graph::GraphOf(model)["outputs"][0] = graph::Named("last");
  json& outputs = model["programs"]["train"]["graph_module"]["signature"]["output_specs"];
  outputs[0]["user_output"]["arg"] = graph::Named("last");
  const std::string eval = "data {eval {synthetic {shape: 3 shape: 8 shape: 8 num_classes: 10 num_samples: ";
  EXPECT_THAT(Wrong(model, SpecOf(eval + "21}}}")), ElementsAre(AllOf(StartsWith("data.eval_batch_size: is 10: "),
                                                                      HasSubstr("of last has 1 value a channel"))));
  EXPECT_TRUE(Admitted(model, SpecOf(eval + "22}}}")).ok()) << Admitted(model, SpecOf(eval + "22}}}")).status();
  EXPECT_THAT(Wrong(model, SpecOf("data {batch_size: 1}")), ElementsAre(StartsWith("data.batch_size: is 1: ")));
}

TEST(AdmitExported, ABatchForWhichTheModelWasNotExportedIsRefused) {
  json model = Net();
  model["programs"]["train"]["range_constraints"] = {{"s77", {{"min_val", 2}, {"max_val", 8}}}};
  EXPECT_THAT(
      Wrong(model, SpecOf()),
      ElementsAre("data.batch_size: is 10: the model was exported for batches of at most 8 samples, and not for "
                  "10; change it or train.gradient_accumulation, or export the model for such batches"));
  for (const char* const change : {"train {gradient_accumulation: 5}", "train {gradient_accumulation: 10}"}) {
    EXPECT_TRUE(Admitted(model, SpecOf(change)).ok()) << change << Admitted(model, SpecOf(change)).status();
  }
  const std::string eval =
      "data {batch_size: 8 eval_batch_size: 9 eval {synthetic {shape: 3 shape: 8 shape: 8 num_classes: 10 "
      "num_samples: 27}}}";
  EXPECT_THAT(Wrong(model, SpecOf(eval)), ElementsAre(AllOf(StartsWith("data.eval_batch_size: is 9: "),
                                                            HasSubstr("at most 8 samples, and not for 9"))));
}

// Returns Net() with a loss that the model computes itself: the binary cross entropy of the head's probabilities. The
// targets are the same probabilities.
json WithProbabilities() {
  json model = Net();
  graph::AddCall(model, "sigmoid.default", {{"self", graph::Named("head")}}, "probabilities", "loss",
                 "torch.nn.BCELoss", {graph::kBatch, 10});
  graph::AddCall(model, "binary_cross_entropy.default",
                 {{"self", graph::Named("probabilities")}, {"target", graph::Named("probabilities")}}, "bce", "loss",
                 "torch.nn.BCELoss", {});
  graph::GraphOf(model)["outputs"] = json::array({graph::Named("bce")});
  return model;
}

TEST(AdmitExported, AnOpThatThePolicyBansIsRefusedWithItsModule) {
  const json model = WithProbabilities();
  const std::string own_loss = "model {exported {head: OWN_LOSS}} ";
  EXPECT_TRUE(Admitted(model, SpecOf(own_loss)).ok()) << Admitted(model, SpecOf(own_loss)).status();
  const std::string banned =
      "aten.binary_cross_entropy.default of loss (net.py:10) is not allowed below fp32; use its form that takes "
      "logits, or the "
      "preset fp32";
  for (const std::string preset : {"fp16", "bf16"}) {
    EXPECT_THAT(Wrong(model, SpecOf(own_loss + "precision {preset: '" + preset + "'}")),
                ElementsAre("precision.preset: " + preset + ": " + banned));
  }
  EXPECT_THAT(Wrong(model, SpecOf(own_loss + "precision {prefer: 'bf16' prefer: 'fp32'}")),
              ElementsAre("precision.preset: bf16: " + banned));
}

TEST(AdmitExported, EarlyStoppingByAnAccuracyNeedsAHeadThatHasOne) {
  const auto with = [](const std::string& head, const std::string& metric) {
    return SpecOf(absl::StrCat("model {exported {", head, "}} eval {every_steps: 5} ",
                               "data {eval {synthetic {shape: 3 shape: 8 shape: 8 num_classes: 10 num_samples: 20}}} ",
                               "train {early_stopping {metric: ", metric, "}}"));
  };
  const std::string refused =
      "train.early_stopping.metric: is EVAL_ACCURACY; an evaluation with the head OWN_LOSS has no accuracy, so use "
      "EVAL_LOSS";
  EXPECT_THAT(Wrong(WithProbabilities(), with("head: OWN_LOSS", "EVAL_ACCURACY")), ElementsAre(refused));
  EXPECT_TRUE(Admitted(WithProbabilities(), with("head: OWN_LOSS", "EVAL_LOSS")).ok());
  EXPECT_TRUE(Admitted(Net(), with("", "EVAL_ACCURACY")).ok()) << "the head CLASSIFICATION is found by the output";
  // The model is a file that only the worker can read. The job names the head, so the server still refuses it.
  v1::JobSpec unread = with("head: OWN_LOSS", "EVAL_ACCURACY");
  unread.mutable_model()->mutable_exported()->set_artifact("");
  unread.mutable_model()->mutable_exported()->set_path("models/net.pt2");
  EXPECT_THAT(std::string(AdmitSpec(unread).status().message()), HasSubstr(refused));
  unread.mutable_model()->mutable_exported()->clear_head();
  EXPECT_TRUE(AdmitSpec(unread).ok()) << AdmitSpec(unread).status() << "; the worker decides";
}

TEST(AdmitExported, WhatIsBannedOnOneKindOfDeviceIsTakenOnTheOther) {
  const std::string spec = "model {exported {head: OWN_LOSS}} precision {preset: 'torch-amp-bf16'} ";
  const json model = WithProbabilities();
  EXPECT_TRUE(Admitted(model, SpecOf(spec + "resources {kind: CPU}")).ok());
  EXPECT_THAT(Wrong(model, SpecOf(spec + "resources {kind: GPU}")), ElementsAre(testing::EndsWith("preset fp32")));
  EXPECT_THAT(Wrong(model, SpecOf(spec)), ElementsAre(testing::EndsWith("set resources.kind to CPU")));
}

TEST(AdmitExported, AnOpThatARuleBansIsRefusedInModelsOfTheZooToo) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_precision()->set_preset("bf16");
  ASSERT_TRUE(AdmitSpec(spec).ok());
  v1::OpRule& rule = *spec.mutable_precision()->add_op_rules();
  rule.set_match("aten.cross_entropy_loss.default");
  rule.set_policy(v1::OpRule::banned);
  const auto admitted = AdmitSpec(spec);
  EXPECT_THAT(std::string(admitted.status().message()),
              HasSubstr("is not allowed below fp32; take it out of op_rules"));
}

}  // namespace
}  // namespace ampd::server
