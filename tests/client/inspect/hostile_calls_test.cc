// Models whose calls are not those that torch.export writes: the description, which contains all that the server
// estimates about a model, must end in a problem or in a result.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/model_file.pb.h"
#include "ampd/v1/worker.pb.h"
#include "client/inspect/model_file.h"
#include "graph/determinism.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "graph/heads.h"
#include "precision/cost/memory.h"
#include "precision/cost/step_flops.h"
#include "precision/example_device.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "tests/graph/exported/exported_gan.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::client {
namespace {

using graph::kBatch;
using graph::Named;
using nlohmann::json;

constexpr int64_t kBatchSize = 4;

struct Golden {
  json model;
  std::string input;  // One of the model's inputs.
  std::optional<graph::Head> head;
};

// Returns a model with ops of which the policies replace some (precision/pass.h), and an own loss over two pixels.
json WithManyOps() {
  json model = graph::WithOutputs({"loss"});
  json& program = graph::GraphOf(model);
  const json none = {{"as_none", true}};
  graph::AddParameter(model, "p_conv", "conv.weight", {4, 3, 3, 3});
  graph::AddParameter(model, "p_scale", "norm.weight", {8});
  graph::AddUserInput(model, "x", {kBatch, 3, 8, 8});
  graph::AddUserInput(model, "labels", {kBatch, 8});
  program["tensor_values"]["labels"] = graph::Tensor({kBatch, 8}, false, graph::kLong);
  const auto call = [&](const char* op, const std::vector<std::pair<std::string, json>>& arguments, const char* result,
                        const std::vector<json>& sizes) {
    graph::AddCall(model, op, arguments, result, "body", "m.Body", sizes);
  };
  call("conv2d.default", {{"input", Named("x")}, {"weight", Named("p_conv")}, {"padding", {{"as_ints", {1, 1}}}}},
       "conv", {kBatch, 4, 8, 8});
  call("group_norm.default", {{"input", Named("conv")}, {"num_groups", {{"as_int", 2}}}, {"weight", none}}, "norm",
       {kBatch, 4, 8, 8});
  call("adaptive_avg_pool2d.default", {{"self", Named("norm")}, {"output_size", {{"as_ints", {2, 1}}}}}, "pool",
       {kBatch, 4, 2, 1});
  call("flatten.using_ints", {{"self", Named("pool")}, {"start_dim", {{"as_int", 1}}}}, "flat", {kBatch, 8});
  call("layer_norm.default",
       {{"input", Named("flat")}, {"normalized_shape", {{"as_ints", {8}}}}, {"weight", Named("p_scale")}}, "even",
       {kBatch, 8});
  graph::AddLinear(model, "wide", "wide", "even", 16, 8);
  call("unflatten.int", {{"self", Named("wide")}, {"dim", {{"as_int", 1}}}, {"sizes", {{"as_ints", {2, 8}}}}}, "rows",
       {kBatch, 2, 8});
  call("scaled_dot_product_attention.default",
       {{"query", Named("rows")}, {"key", Named("rows")}, {"value", Named("rows")}}, "seen", {kBatch, 2, 8});
  call("add.Tensor", {{"self", Named("seen")}, {"other", {{"as_float", 1.0}}}}, "sum", {kBatch, 2, 8});
  call("log_softmax.int", {{"self", Named("sum")}, {"dim", {{"as_int", 1}}}}, "scores", {kBatch, 2, 8});
  call("nll_loss_nd.default", {{"self", Named("scores")}, {"target", Named("labels")}}, "loss", {});
  return model;
}

std::vector<Golden> Goldens() {
  return {
      {graph::Net(), "x", {}}, {graph::Gan(), "noise", graph::Head::kGan}, {WithManyOps(), "x", graph::Head::kOwnLoss}};
}

// Arguments of all kinds that a file may contain. Those that are tensors read the input `input`.
std::vector<json> AnyArguments(const std::string& input) {
  const json tensor = {{"name", input}};
  return {{{"as_none", true}},
          {{"as_tensor", tensor}},
          {{"as_tensors", json::array({tensor, tensor})}},
          {{"as_optional_tensors", json::array({json{{"as_none", true}}, json{{"as_tensor", tensor}}})}},
          {{"as_int", 0}},
          {{"as_int", -3}},
          {{"as_ints", json::array()}},
          {{"as_ints", {0, 2}}},
          {{"as_float", 0.5}},
          {{"as_bool", true}},
          {{"as_string", "replicate"}},
          {{"as_scalar_type", 7}}};
}

// Runs what EstimateJob of the server runs beside the description.
void Estimate(const graph::ImportedPrograms& imported, const v1::Device& device) {
  graph::FindNondeterministicOp(imported.train);
  const bool is_evaluated = graph::HeadOf(imported.train).has_value();
  const auto programs = precision::TrainedPrograms::Of(imported.train, is_evaluated ? &imported.eval : nullptr);
  if (!programs.ok()) {
    return;
  }
  v1::JobSpec spec;
  spec.mutable_precision()->set_preset("bf16");
  const auto resolved =
      precision::ResolvePolicy(spec.precision(), programs->train, device, precision::OptimizerKind::kAdam);
  if (resolved.ok()) {
    const auto flops = precision::CountStepFlops(*programs, *resolved, device, kBatchSize, /*num_micro_batches=*/2);
    EXPECT_TRUE(!flops.ok() || flops->flops >= 0);
  }
}

// Describes the model for a CPU and for a GPU. Returns the problems of the model.
std::vector<std::string> ProblemsOf(const json& json_model, std::optional<graph::Head> head) {
  const auto model = graph::ParseExportedModel(json_model.dump());
  if (!model.ok()) {
    return {std::string(model.status().message())};
  }
  std::vector<std::string> problems;
  for (const v1::Device& device : {precision::ExampleCpu(), precision::ExampleGpu()}) {
    const ModelQuestion question = {
        .head = head, .presets = {"fp32", "fp16", "fp8"}, .device = device, .batch_size = kBatchSize};
    const v1::ModelFile file = DescribeModel(*model, question);
    EXPECT_TRUE(!file.problems().empty() || file.policies_size() == 3);
    problems.insert(problems.end(), file.problems().begin(), file.problems().end());
    if (const auto imported = graph::ImportPrograms(*model, {.head = head}); imported.ok()) {
      Estimate(*imported, device);
    }
  }
  return problems;
}

TEST(DescribeModel, AnArgumentThatIsMissingOrOfAnotherKind_EndsInAProblemOrAResult) {
  for (Golden golden : Goldens()) {
    const auto is_refused = [&](const json& model) { return !ProblemsOf(model, golden.head).empty(); };
    EXPECT_EQ(testing::PrintToString(ProblemsOf(golden.model, golden.head)), "{}");
    int num_refused = 0;
    const json nodes = graph::GraphOf(golden.model)["nodes"];
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = 0; j < nodes[i]["inputs"].size(); ++j) {
        SCOPED_TRACE(testing::Message() << nodes[i]["target"] << " with another " << nodes[i]["inputs"][j]["name"]);
        json model = golden.model;
        graph::GraphOf(model)["nodes"][i]["inputs"].erase(j);
        num_refused += is_refused(model) ? 1 : 0;
        for (const json& argument : AnyArguments(golden.input)) {
          SCOPED_TRACE(argument.dump());
          model = golden.model;
          graph::GraphOf(model)["nodes"][i]["inputs"][j]["arg"] = argument;
          num_refused += is_refused(model) ? 1 : 0;
        }
      }
    }
    EXPECT_GT(num_refused, 0);
  }
}

// The file says of which shape each tensor is, and may be wrong.
TEST(DescribeModel, ATensorOfAnotherShape_EndsInAProblemOrAResult) {
  for (Golden golden : Goldens()) {
    const json tensors = graph::GraphOf(golden.model)["tensor_values"];
    for (const auto& [name, unused] : tensors.items()) {
      for (const std::vector<json>& sizes : std::vector<std::vector<json>>{{}, {kBatch}, {kBatch, 0, 2, 3}}) {
        SCOPED_TRACE(testing::Message() << name << " of " << sizes.size() << " dimensions");
        json model = golden.model;
        graph::GraphOf(model)["tensor_values"][name]["sizes"] = graph::Tensor(sizes)["sizes"];
        ProblemsOf(model, golden.head);
      }
    }
  }
}

}  // namespace
}  // namespace ampd::client
