#include "tests/graph/exported/exported_gan.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/graph/exported/exported_net.h"
#include "tests/graph/exported/exported_text.h"

namespace ampd::graph {

void AddGanNorm(json& model, const std::string& input, const std::string& result) {
  AddNorm(model, input, result, "generator.1", {kBatch, kGanFeatures});
}

void AddGanScore(json& model, const std::string& input, const std::string& result) {
  AddCall(model, "linear.default", {{"input", Named(input)}, {"weight", Named("p_d")}, {"bias", {{"as_none", true}}}},
          result, "discriminator", "torch.nn.modules.linear.Linear", {kBatch, 1});
}

json Gan() {
  json model = WithOutputs({"d_loss", "g_loss"});
  AddParameter(model, "p_scale", "generator.1.weight", {kGanFeatures});
  AddParameter(model, "p_shift", "generator.1.bias", {kGanFeatures});
  AddParameter(model, "p_d", "discriminator.weight", {1, kGanFeatures});
  AddBuffer(model, "b_mean", "generator.1.running_mean", {kGanFeatures});
  AddBuffer(model, "b_var", "generator.1.running_var", {kGanFeatures});
  AddUserInput(model, "images", {kBatch, kGanFeatures});
  AddUserInput(model, "noise", {kBatch, kGanFeatures});
  AddLinear(model, "made", "generator.0", "noise", kGanFeatures, kGanFeatures);
  AddGanNorm(model, "made", "fake");
  AddGanScore(model, "images", "of_real");
  AddCall(model, "detach.default", {{"self", Named("fake")}}, "constant", "", "", {kBatch, kGanFeatures});
  AddGanScore(model, "constant", "of_constant");
  AddCall(model, "sub.Tensor", {{"self", Named("of_real")}, {"other", Named("of_constant")}}, "edge", "", "",
          {kBatch, 1});
  AddCall(model, "mean.default", {{"self", Named("edge")}}, "d_loss", "", "", {});
  AddGanScore(model, "fake", "of_fake");
  AddCall(model, "mean.default", {{"self", Named("of_fake")}}, "g_loss", "", "", {});
  return model;
}

}  // namespace ampd::graph
