#include "client/inspect/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/model_text.h"
#include "graph/exported/import.h"
#include "graph/passes.h"
#include "precision/cost/memory.h"
#include "precision/example_device.h"
#include "precision/policy.h"
#include "tests/graph/exported/exported_gan.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::client {
namespace {

using graph::Net;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using v1::ModelOp;
using v1::ModelTensor;
using v1::OpRule;

ModelQuestion Question(const std::vector<std::string>& presets = {}, int64_t batch_size = 0) {
  return {.presets = presets, .device = precision::ExampleGpu(), .batch_size = batch_size};
}

graph::ExportedModel Parsed(const json& model) {
  auto parsed = graph::ParseExportedModel(model.dump());
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *std::move(parsed);
}

v1::ModelFile Described(const json& model, const ModelQuestion& question = Question()) {
  return DescribeModel(Parsed(model), question);
}

// Returns the entry of an op, such as "conv2d.default", in the description of a model file.
ModelOp OpOf(const v1::ModelFile& file, const std::string& name) {
  const auto found =
      std::find_if(file.ops().begin(), file.ops().end(), [&](const ModelOp& op) { return op.op() == "aten." + name; });
  return found == file.ops().end() ? ModelOp() : *found;
}

// Returns the numbers of ops by the way in which the policy computes them: "lower bfloat16 4; fp32  1".
std::string Shares(const v1::ModelPolicy& policy) {
  return absl::StrJoin(policy.shares(), "; ", [](std::string* out, const v1::ModelPolicy::Share& share) {
    absl::StrAppend(out, OpRule::Class_Name(share.policy()), " ", share.dtype(), share.emulated() ? " emulated " : " ",
                    share.num_ops());
  });
}

TEST(DescribeModel, InputsAndOutputs_AreListed) {
  const v1::ModelFile file = Described(Net());
  ASSERT_EQ(file.inputs_size(), 1);
  EXPECT_EQ(file.inputs(0).name(), "x");
  EXPECT_EQ(file.inputs(0).dtype(), "float32");
  EXPECT_THAT(file.inputs(0).shape(), ElementsAre("B", "3", "8", "8"));
  EXPECT_EQ(file.inputs(0).field(), "images");
  ASSERT_EQ(file.outputs_size(), 2);
  EXPECT_THAT(file.outputs(0).shape(), ElementsAre("B", "10"));
  EXPECT_EQ(file.outputs(0).head(), v1::ExportedModelSpec::CLASSIFICATION);
  EXPECT_TRUE(file.outputs(0).taken());
  EXPECT_FALSE(file.outputs(1).taken());
  EXPECT_THAT(file.problems(), IsEmpty());
  EXPECT_THAT(file.warnings(), IsEmpty());
}

TEST(DescribeModel, SeveralInputs_ThoseThatNeedAnArrayAreWarnedOf) {
  json model = Net();
  json& graph = graph::GraphOf(model);
  graph["inputs"].push_back(graph::Named("attention_mask"));
  graph["tensor_values"]["attention_mask"] = graph::Tensor({graph::kBatch, "Mul(Integer(4), Symbol('s9'))"});
  graph::InputsOf(model).push_back(graph::Input("attention_mask"));
  const v1::ModelFile file = Described(model);
  EXPECT_EQ(file.inputs(0).field(), "x");
  EXPECT_EQ(file.inputs(1).field(), "attention_mask");
  EXPECT_THAT(file.inputs(1).shape(), ElementsAre("B", "4*s9"));
  EXPECT_THAT(file.warnings(), ElementsAre(HasSubstr("the input x reads the array of that name in an npz or")));
  EXPECT_THAT(file.problems(), ElementsAre(HasSubstr("attention_mask has a size s9, which is no number")));
}

TEST(DescribeModel, EachTensor_HasItsRoleInTraining) {
  const v1::ModelFile file = Described(Net());
  std::map<std::string, ModelTensor> tensors;
  for (const ModelTensor& tensor : file.tensors()) {
    tensors[tensor.name()] = tensor;
  }
  EXPECT_EQ(tensors.at("stem.0.weight").role(), ModelTensor::TRAINED);
  EXPECT_EQ(tensors.at("stem.0.weight").size_bytes(), 8 * 3 * 3 * 3 * 4);
  EXPECT_EQ(tensors.at("body.0.bias").role(), ModelTensor::FROZEN);
  EXPECT_EQ(tensors.at("unused").role(), ModelTensor::UNUSED);
  EXPECT_EQ(tensors.at("tied").role(), ModelTensor::TIED);
  EXPECT_EQ(tensors.at("tied").tied_to(), "head.weight");
  EXPECT_EQ(tensors.at("stem.1.running_mean").role(), ModelTensor::KEPT);
  EXPECT_EQ(tensors.at("stem.1.running_mean").kind(), ModelTensor::BUFFER);
  EXPECT_EQ(tensors.at("stem.1.num_batches_tracked").role(), ModelTensor::KEPT);
  EXPECT_EQ(tensors.at("stem.1.num_batches_tracked").size_bytes(), 8);
  EXPECT_EQ(tensors.at("calls").role(), ModelTensor::LEFT_OUT);
}

TEST(DescribeModel, ConstantsOfEvaluationOnly_AreListed) {
  const v1::ModelFile file = Described(graph::WithInlineConstants());
  ASSERT_THAT(file.problems(), IsEmpty());
  const ModelTensor& last = *file.tensors().rbegin();
  EXPECT_EQ(last.name(), "lifted_tensor_0@eval");
  EXPECT_EQ(last.kind(), ModelTensor::CONSTANT);
  EXPECT_EQ(last.role(), ModelTensor::KEPT);
  EXPECT_EQ(last.size_bytes(), 4);
  EXPECT_EQ(file.modules_size(), Described(Net()).modules_size()) << "it is of no other module";
}

// Selects output 1, the stem's features, as the logits. Then nothing after the stem is trained.
TEST(DescribeModel, AnotherSelectedOutput_ChangesWhatIsTrained) {
  ModelQuestion question = Question();
  question.output = 1;
  const v1::ModelFile file = Described(Net(), question);
  EXPECT_TRUE(file.outputs(1).taken());
  for (const ModelTensor& tensor : file.tensors()) {
    if (tensor.name() == "body.1.weight") {
      EXPECT_EQ(tensor.role(), ModelTensor::UNUSED);
    }
  }
  question.output = 2;
  EXPECT_THAT(Described(Net(), question).problems(),
              ElementsAre("the program has no tensor as its output 2; it has 2 outputs"));
}

TEST(DescribeModel, ModulesComeBeforeThoseInThem_WithWhatIsInThem) {
  const v1::ModelFile file = Described(Net());
  std::vector<std::string> lines;
  for (const v1::ModelModule& module : file.modules()) {
    lines.push_back(
        absl::StrCat(module.path(), " ", module.type(), " ", module.num_parameters(), " ", module.num_ops()));
  }
  // Expected numbers of parameters. stem: 216 + 16; body: 32 * 512 + 32 and twice 32 * 32 + 32; head: 330; 3 unused.
  EXPECT_THAT(
      lines,
      ElementsAre(" net.Net 19093 9", "stem torch.nn.modules.container.Sequential 232 3",
                  "stem.0 torch.nn.modules.conv.Conv2d 216 1", "stem.1 torch.nn.modules.batchnorm.BatchNorm2d 16 1",
                  "stem.2 torch.nn.modules.activation.ReLU 0 1", "body torch.nn.modules.container.Sequential 18528 3",
                  "body.0 torch.nn.modules.linear.Linear 16416 1", "body.1 torch.nn.modules.linear.Linear 1056 1",
                  "body.2 torch.nn.modules.linear.Linear 1056 1", "head torch.nn.modules.linear.Linear 330 1",
                  "drop torch.nn.modules.dropout.Dropout 0 1"));
}

TEST(DescribeModel, OpsAreCountedByProgramAndFate) {
  json model = Net();
  model["programs"]["eval"] = model["programs"]["train"];
  json& nodes = graph::GraphOf(model, "eval")["nodes"];
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [](const json& node) { return node["target"] == "torch.ops.aten.dropout.default"; }),
              nodes.end());
  graph::GraphOf(model, "eval")["nodes"].back()["target"] = "torch.ops.aten.sort.default";
  const v1::ModelFile file = Described(model);
  EXPECT_EQ(OpOf(file, "linear.default").num_train(), 4);
  EXPECT_EQ(OpOf(file, "linear.default").num_eval(), 3);
  EXPECT_EQ(OpOf(file, "linear.default").policy(), OpRule::lower);
  EXPECT_EQ(OpOf(file, "add_.Tensor").fate(), ModelOp::GONE);
  EXPECT_EQ(OpOf(file, "dropout.default").num_eval(), 0);
  EXPECT_EQ(OpOf(file, "sort.default").fate(), ModelOp::REFUSED);
  EXPECT_EQ(OpOf(file, "sort.default").num_train(), 0);
  EXPECT_FALSE(file.programs(1).derived());
}

TEST(DescribeModel, EveryRefusedOpIsAProblem_InTheTrainersWords) {
  json model = Net();
  for (json& node : graph::GraphOf(model)["nodes"]) {
    if (node["target"] == "torch.ops.aten.relu_.default") {
      node["target"] = "torch.ops.aten.sort.default";
    } else if (node["target"] == "torch.ops.aten.dropout.default") {
      node["target"] = "torch.ops.aten.topk.default";
    }
  }
  const v1::ModelFile file = Described(model, Question({"bf16"}));
  const std::string first(graph::ImportPrograms(Parsed(model), {}).status().message());
  EXPECT_THAT(file.problems(), ElementsAre("aten.sort.default of stem.2 (net.py:10) is not an op that models may use",
                                           "aten.topk.default of drop (net.py:10) is not an op that models may use"));
  EXPECT_EQ(file.problems(0), first);
  EXPECT_EQ(file.programs(0).num_ops(), 0);
  EXPECT_THAT(file.policies(), IsEmpty());
}

TEST(DescribeModel, AnOutputThatNoHeadAccepts_IsAProblem) {
  json model = Net();
  graph::GraphOf(model)["outputs"] = json::array({graph::Named("relu")});
  const v1::ModelFile file = Described(model);
  EXPECT_EQ(file.outputs(0).head(), v1::ExportedModelSpec::HEAD_UNSPECIFIED);
  EXPECT_THAT(file.problems(),
              ElementsAre("model.exported.output 0 is float32[B, 8, 8, 8]; without model.exported.head it is "
                          "float32[B, classes] or float32[B, positions, vocabulary]; model.exported.head REGRESSION "
                          "takes float32[B, ...]"));
}

TEST(DescribeModel, ANamedHead_ReadsItsOutput) {
  json model = Net();
  graph::GraphOf(model)["outputs"] = json::array({graph::Named("relu")});
  ModelQuestion question = Question({"bf16"});
  question.head = graph::Head::kRegression;
  const v1::ModelFile file = Described(model, question);
  EXPECT_THAT(file.problems(), IsEmpty());
  EXPECT_EQ(file.outputs(0).head(), v1::ExportedModelSpec::REGRESSION);
  ASSERT_EQ(file.policies_size(), 1);
  const auto& kept = file.policies(0).kept();
  EXPECT_TRUE(
      std::any_of(kept.begin(), kept.end(), [](const auto& one) { return one.op() == "aten.mse_loss.default"; }));
}

TEST(DescribeModel, AGanHasTwoOutputsAndIsGivenNoise) {
  ModelQuestion question = Question({"bf16"}, /*batch_size=*/64);
  question.head = graph::Head::kGan;
  const v1::ModelFile file = Described(graph::Gan(), question);
  EXPECT_THAT(file.problems(), IsEmpty());
  EXPECT_THAT(file.warnings(), IsEmpty());
  ASSERT_EQ(file.outputs_size(), 2);
  for (const v1::ModelOutput& output : file.outputs()) {
    EXPECT_TRUE(output.taken());
    EXPECT_EQ(output.head(), v1::ExportedModelSpec::GAN);
  }
  EXPECT_EQ(file.inputs(1).field(), "noise");
  ASSERT_EQ(file.policies_size(), 1);
  EXPECT_EQ(Shares(file.policies(0)), "lower bfloat16 4; fp32  2; promote  1; as_input  2");
  const std::string text = RenderModelFile(file, ModelTextOptions());
  EXPECT_THAT(text, HasSubstr("gan"));
  EXPECT_THAT(text, HasSubstr("used as the loss"));
  question.head = std::nullopt;
  EXPECT_THAT(Described(graph::Gan(), question).problems(),
              ElementsAre(HasSubstr("model.exported.output 0 is float32[]")));
}

TEST(DescribeModel, PoliciesAreResolvedAsTheTrainerDoes) {
  const v1::ModelFile file = Described(Net(), Question({"fp32", "bf16", "fp8", "torch-amp-bf16"}));
  ASSERT_EQ(file.policies_size(), 4);
  EXPECT_EQ(Shares(file.policies(0)), "lower float32 5; fp32  1; as_input  4");
  EXPECT_THAT(file.policies(0).kept(), IsEmpty()) << "nothing stays where nothing is lowered";
  EXPECT_EQ(Shares(file.policies(1)), "lower bfloat16 5; fp32  1; as_input  4");
  EXPECT_EQ(Shares(file.policies(2)), "lower bfloat16 4; lower float8_e4m3fn 1; fp32  1; as_input  4");
  EXPECT_THAT(file.policies(2).fp8_layers(), ElementsAre("body.1"));
  // The policy's table must equal that of ResolvePolicy for the training program with its loss.
  const auto programs = graph::ImportPrograms(Parsed(Net()), {});
  v1::PrecisionPolicy policy;
  policy.set_preset("bf16");
  const auto resolved = precision::ResolvePolicy(policy, *graph::WithLossHead(programs->train), precision::ExampleGpu(),
                                                 precision::OptimizerKind::kAdam);
  EXPECT_EQ(file.policies(1).table().text(), precision::ToText(*resolved));
}

TEST(DescribeModel, WhatStaysFp32_IsListedWithTheReason) {
  const v1::ModelFile file = Described(Net(), Question({"bf16", "torch-amp-bf16"}));
  std::vector<std::string> lines;
  for (const v1::ModelPolicy& policy : file.policies()) {
    for (const v1::ModelPolicy::Kept& kept : policy.kept()) {
      lines.push_back(absl::StrCat(policy.preset(), " ", kept.op(), " ", kept.num_ops(), " ", kept.num_parameters(),
                                   " ", kept.parameter_bytes(), " ", kept.why()));
    }
  }
  EXPECT_THAT(
      lines,
      ElementsAre("bf16 aten.cross_entropy_loss.default 1 0 0 sums, exponentials and losses lose too much accuracy in "
                  "fewer bits",
                  "bf16 aten.batch_norm.default 0 2 64 the op is not a matrix product and reads its parameters in fp32",
                  "torch-amp-bf16 aten.cross_entropy_loss.default 1 0 0 the op list torch-cuda keeps this op in fp32",
                  "torch-amp-bf16  0 10 76232 the preset keeps parameters in fp32 and casts them for "
                  "matrix products"));
}

TEST(DescribeModel, TheMemoryIsThatOfTheServersOwnModel) {
  const v1::ModelFile file = Described(Net(), Question({"bf16"}, 16));
  const auto programs = graph::ImportPrograms(Parsed(Net()), {});
  v1::JobSpec spec;
  spec.mutable_precision()->set_preset("bf16");
  const auto trained = precision::TrainedPrograms::Of(programs->train, /*evaluates=*/true);
  const auto resolved = precision::ResolvePolicy(spec.precision(), trained->train, precision::ExampleGpu(),
                                                 precision::OptimizerKind::kAdam);
  const auto memory =
      precision::MemoryModel::Create(*trained, *resolved, precision::TrainingSetup::Of(spec, precision::ExampleGpu()));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(file.policies(0).memory().total_bytes(), memory->At(16).total());
  EXPECT_FALSE(Described(Net(), Question({"bf16"})).policies(0).has_memory());
}

TEST(DescribeModel, SizesThatNoMachineHasAreNotSummed) {
  json model = Net();
  for (const char* tensor : {"conv", "norm", "relu"}) {
    graph::GraphOf(model)["tensor_values"][tensor] = graph::Tensor({graph::kBatch, 1 << 16, 1 << 10, 1 << 10});
  }
  const v1::ModelFile file = Described(model, Question({"bf16"}, 1 << 20));
  EXPECT_FALSE(file.policies(0).has_memory());
  EXPECT_THAT(file.warnings(), ElementsAre(HasSubstr("is more than any machine has")));
}

TEST(DescribeModel, APolicyThatAJobWouldRefuseSaysWhy) {
  json model = Net();
  for (json& node : graph::GraphOf(model)["nodes"]) {
    if (node["target"] == "torch.ops.aten.linear.default" && node["outputs"][0]["as_tensor"]["name"] == "second") {
      node["target"] = "torch.ops.aten.binary_cross_entropy.default";
      node["inputs"][0]["name"] = "self";
      node["inputs"][1] = {{"name", "target"}, {"arg", graph::Named("first")}, {"kind", 1}};
      node["inputs"].erase(2);  // The op takes no bias.
    }
  }
  const v1::ModelFile file = Described(model, Question({"fp32", "bf16"}));
  EXPECT_THAT(file.problems(), IsEmpty());
  EXPECT_EQ(file.policies(0).problem(), "");
  EXPECT_THAT(file.policies(1).problem(), HasSubstr("is not allowed below fp32"));
  EXPECT_FALSE(file.policies(1).has_table());
}

TEST(DescribeModel, PathsThatNoModelHasCountAsTheModelsOwn) {
  for (const std::string& path :
       {std::string(300, 'a'), std::string("a") + absl::StrJoin(std::vector<std::string>(70, ".a"), "")}) {
    json model = Net();
    graph::GraphOf(model)["nodes"].back()["metadata"]["nn_module_stack"] = "k,,net.Net;k," + path + ",T";
    const v1::ModelFile file = Described(model);
    for (const v1::ModelModule& module : file.modules()) {
      EXPECT_THAT(module.path(), Not(HasSubstr("aa"))) << path;
      EXPECT_THAT(module.path(), Not(HasSubstr("a.a"))) << path;
    }
    EXPECT_EQ(file.modules(0).num_ops(), 9);
  }
}

TEST(RenderModelFile, TextOfTheFileCantSteerATerminal) {
  json model = Net();
  graph::GraphOf(model)["nodes"][0]["target"] = "torch.ops.aten.\x1b[31msort\x07.default";
  graph::GraphOf(model)["nodes"][0]["metadata"]["stack_trace"] = "File \"/a/\x1b]0;x\x07.py\", line 3\n, in f";
  graph::GraphOf(model)["nodes"][2]["metadata"]["nn_module_stack"] =
      "k,,Net\x1b[2J;k,st\xc2\x9b\x7f"
      "em,\x08T";
  const v1::ModelFile file = Described(model);
  ASSERT_EQ(file.problems_size(), 1);
  for (const bool wide : {false, true}) {
    const std::string text = RenderModelFile(file, {.wide = wide});
    EXPECT_TRUE(std::none_of(text.begin(), text.end(), [](unsigned char c) {
      return (c < 0x20 && c != '\n') || c == 0x7f || c == 0x9b;
    })) << text;
    EXPECT_THAT(text, HasSubstr("problem: aten.\\x1b[31msort\\x07.default of stem.0 (\\x1b]0;x\\x07.py:3)"));
  }
}

}  // namespace
}  // namespace ampd::client
