#include "absl/strings/str_cat.h"
#include "precision/policy.h"

namespace ampd::precision {

std::string ToText(const ResolvedPolicy& policy) {
  const LossScaleConfig& scale = policy.loss_scale;
  std::string text = absl::StrCat("preset ", policy.preset, policy.emulated ? " (emulated)" : "", "\n");
  switch (scale.kind) {
    case LossScaleConfig::Kind::kOff:
      absl::StrAppend(&text, "loss scale off\n");
      break;
    case LossScaleConfig::Kind::kStatic:
      absl::StrAppend(&text, "loss scale static ", scale.initial, "\n");
      break;
    case LossScaleConfig::Kind::kDynamic:
      absl::StrAppend(&text, "loss scale dynamic initial=", scale.initial, " growth=", scale.growth_factor,
                      " backoff=", scale.backoff_factor, " interval=", scale.growth_interval, " floor=", scale.floor,
                      " hysteresis=", scale.hysteresis, "\n");
  }
  for (const ParameterRow& row : policy.parameters) {
    absl::StrAppend(&text, "parameter ", row.name, " ", std::string(graph::DtypeName(row.dtype)),
                    row.master ? " master=float32" : "", "\n");
  }
  for (const OpRow& row : policy.ops) {
    absl::StrAppend(&text, "op ", row.op, " ", std::string(graph::OpClassName(row.decision.op_class)));
    if (row.decision.op_class == graph::OpClass::kLower) {
      absl::StrAppend(&text, " ", std::string(graph::DtypeName(row.decision.compute)),
                      row.decision.emulated ? " emulated" : "");
    }
    absl::StrAppend(&text, row.module_path.empty() ? "" : "  # ", row.module_path, "\n");
  }
  return text;
}

}  // namespace ampd::precision
