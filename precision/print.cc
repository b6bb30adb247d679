#include "absl/strings/str_cat.h"
#include "precision/policy.h"

namespace ampd::precision {
namespace {

std::string Name(graph::Dtype dtype) { return std::string(graph::DtypeName(dtype)); }

std::string FormatsText(const Formats& formats) {
  std::string text =
      absl::StrCat("formats compute=", Name(formats.compute), " parameter=", Name(formats.parameter),
                   " master=", std::string(MastersName(formats.master)), " accumulation=", Name(formats.accumulation),
                   " reduction=", Name(formats.reduction), " optimizer_state=", Name(formats.optimizer_state));
  for (const auto& [set, word] : {std::pair(formats.whole_model, " whole_model"),
                                  {formats.fp32_batch_norm, " fp32_batch_norm"},
                                  {formats.stochastic_rounding, " stochastic_rounding"},
                                  {formats.tf32_matmul, " tf32_matmul"}}) {
    absl::StrAppend(&text, set ? word : "");
  }
  return text + "\n";
}

std::string LossScaleText(const LossScaleConfig& scale) {
  switch (scale.kind) {
    case LossScaleConfig::Kind::kOff:
      return "loss scale off\n";
    case LossScaleConfig::Kind::kStatic:
      return absl::StrCat("loss scale static ", scale.initial, "\n");
    case LossScaleConfig::Kind::kDynamic:
      break;
  }
  return absl::StrCat("loss scale dynamic initial=", scale.initial, " growth=", scale.growth_factor,
                      " backoff=", scale.backoff_factor, " interval=", scale.growth_interval, " floor=", scale.floor,
                      " cap=", scale.cap, " hysteresis=", scale.hysteresis,
                      scale.refill_on_every_good_step ? " refilled on every good step" : "",
                      scale.at_floor == LossScaleConfig::AtFloor::kFail ? " fails at the floor" : "", "\n");
}

}  // namespace

std::string ToText(const ResolvedPolicy& policy) {
  std::string text =
      absl::StrCat("preset ", policy.preset, policy.emulated() ? " (emulated)" : "", "\n", FormatsText(policy.formats),
                   LossScaleText(policy.loss_scale), "ops as in ", std::string(OpListName(policy.op_list)), "\n");
  for (const ParameterRow& row : policy.parameters) {
    absl::StrAppend(&text, "parameter ", row.name, " ", Name(row.dtype), row.master == Masters::kNone ? "" : " master=",
                    row.master == Masters::kNone ? "" : std::string(MastersName(row.master)), "\n");
  }
  for (const BufferRow& row : policy.buffers) {
    absl::StrAppend(&text, "buffer ", row.name, " ", Name(row.dtype), "\n");
  }
  for (const OpRow& row : policy.ops) {
    absl::StrAppend(&text, "op ", row.op, " ", std::string(graph::OpClassName(row.decision.op_class)));
    if (row.decision.op_class == graph::OpClass::kLower) {
      absl::StrAppend(&text, " ", Name(row.decision.compute), row.decision.emulated ? " emulated" : "");
    }
    absl::StrAppend(&text, row.module_path.empty() ? "" : "  # ", row.module_path, "\n");
  }
  return text;
}

}  // namespace ampd::precision
