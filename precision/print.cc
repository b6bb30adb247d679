#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "precision/policy.h"

namespace ampd::precision {
namespace {

using graph::DtypeText;

std::string FormatsText(const Formats& formats) {
  std::string text = absl::StrCat(
      "formats compute=", DtypeText(formats.compute), " parameter=", DtypeText(formats.parameter),
      " master=", std::string(MastersName(formats.master)), " accumulation=", DtypeText(formats.accumulation),
      " reduction=", DtypeText(formats.reduction), " optimizer_state=", DtypeText(formats.optimizer_state));
  for (const auto& [set, word] : {std::pair(formats.whole_model, " whole_model"),
                                  {formats.fp32_batch_norm, " fp32_batch_norm"},
                                  {formats.stochastic_rounding, " stochastic_rounding"},
                                  {formats.tf32_matmul, " tf32_matmul"}}) {
    absl::StrAppend(&text, set ? word : "");
  }
  return text + "\n";
}

std::string_view AtFloorText(LossScaleConfig::AtFloor action) {
  switch (action) {
    case LossScaleConfig::AtFloor::kClamp:
      return "";
    case LossScaleConfig::AtFloor::kFail:
      return " fails at the floor";
    case LossScaleConfig::AtFloor::kFallBack:
      return " falls back at the floor";
  }
  return "";
}

std::string ScalingText(const LossScaleConfig& scale) {
  switch (scale.kind) {
    case LossScaleConfig::Kind::kOff:
      return "off";
    case LossScaleConfig::Kind::kStatic:
      return absl::StrCat("static ", LossScaleText(scale.initial));
    case LossScaleConfig::Kind::kDynamic:
      break;
  }
  return absl::StrCat(
      "dynamic initial=", LossScaleText(scale.initial), " growth=", scale.growth_factor,
      " backoff=", scale.backoff_factor, " interval=", scale.growth_interval, " floor=", LossScaleText(scale.floor),
      " cap=", LossScaleText(scale.cap), " hysteresis=", scale.hysteresis,
      scale.refill_on_every_good_step ? " refilled on every good step" : "", std::string(AtFloorText(scale.at_floor)));
}

std::string ScalingLine(const LossScaleConfig& scale) {
  const bool together = scale.optimizer_skip == LossScaleConfig::OptimizerSkip::kAllTogether;
  return absl::StrCat("loss scale ", ScalingText(scale), together ? ", optimizers skip together" : "", "\n");
}

std::string Fp8Text(const Fp8Recipe& recipe) {
  const bool delayed = recipe.scaling == Fp8Recipe::Scaling::kDelayed;
  return absl::StrCat("fp8 scaling=", std::string(ScalingName(recipe.scaling)), " forward=", DtypeText(recipe.forward),
                      " gradient=", DtypeText(recipe.gradient),
                      delayed ? absl::StrCat(" history=", recipe.amax_history_length, " margin=", recipe.margin) : "",
                      recipe.power_of_two_scales ? " power_of_two_scales" : "", " amax_epsilon=", recipe.amax_epsilon,
                      " canary=", recipe.canary_every_steps, " bound=", recipe.canary_bound, "\n");
}

// Describes the format of an FP8 layer, for example "float8_e4m3fn but for the input gradient" (all products but that
// one are in FP8).
std::string Fp8OpText(const Fp8Recipe& recipe, const Fp8Products& products) {
  std::vector<std::string> others;
  for (const auto& [in_fp8, word] : {std::pair(products.forward, "forward"),
                                     {products.input_gradient, "input gradient"},
                                     {products.weight_gradient, "weight gradient"}}) {
    if (!in_fp8) {
      others.emplace_back(word);
    }
  }
  return absl::StrCat(DtypeText(recipe.forward), others.empty() ? "" : " but for ", absl::StrJoin(others, " and "));
}

std::string ComputeText(const ResolvedPolicy& policy, const OpDecision& decision) {
  if (!decision.fp8_layer.has_value()) {
    return DtypeText(decision.compute);
  }
  return Fp8OpText(*policy.fp8, policy.fp8_layers[*decision.fp8_layer].products);
}

}  // namespace

std::string ToText(const ResolvedPolicy& policy) {
  std::string text =
      absl::StrCat("preset ", policy.preset, policy.emulated() ? " (emulated)" : "", "\n", FormatsText(policy.formats),
                   ScalingLine(policy.loss_scale), policy.fp8.has_value() ? Fp8Text(*policy.fp8) : "", "ops as in ",
                   std::string(OpListName(policy.op_list)), "\n");
  for (const ParameterRow& row : policy.parameters) {
    absl::StrAppend(&text, "parameter ", row.name, " ", DtypeText(row.dtype),
                    row.master == Masters::kNone ? "" : " master=",
                    row.master == Masters::kNone ? "" : std::string(MastersName(row.master)), "\n");
  }
  for (const BufferRow& row : policy.buffers) {
    absl::StrAppend(&text, "buffer ", row.name, " ", DtypeText(row.dtype), "\n");
  }
  for (const OpRow& row : policy.ops) {
    absl::StrAppend(&text, "op ", row.op, " ", std::string(graph::OpClassName(row.decision.op_class)));
    if (row.decision.op_class == graph::OpClass::kLower) {
      absl::StrAppend(&text, " ", ComputeText(policy, row.decision),
                      row.decision.emulated ? " emulated"
                      : row.decision.upcast ? " in fp32"
                                            : "");
    }
    absl::StrAppend(&text, row.module_path.empty() ? "" : "  # ", row.module_path, "\n");
  }
  return text;
}

}  // namespace ampd::precision
