#include "worker/train/precision_raise.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "precision/capability.h"

namespace ampd::train {

using v1::PrecisionPolicy;

PrecisionPolicy Raised(PrecisionPolicy policy, const PrecisionRaise& raise) {
  if (!raise.preset.empty()) {
    policy.set_preset(raise.preset);
    policy.clear_prefer();
    for (const char* format : {"compute", "parameter", "master", "gradient", "accumulation", "reduction",
                               "optimizer_state", "cast_mode", "stochastic_rounding"}) {
      policy.GetReflection()->ClearField(&policy, policy.GetDescriptor()->FindFieldByName(format));
    }
    for (v1::ModuleRule& rule : *policy.mutable_module_rules()) {
      // A rule is fp32 or what the policy computes in.
      rule.set_compute(rule.compute() == PrecisionPolicy::fp32 || raise.preset == "fp32" ? PrecisionPolicy::fp32
                                                                                         : PrecisionPolicy::bf16);
    }
  }
  google::protobuf::RepeatedPtrField<v1::ModuleRule> rules;
  for (const std::string& module : raise.fp32_modules) {
    v1::ModuleRule& rule = *rules.Add();
    rule.set_match(module);
    rule.set_compute(PrecisionPolicy::fp32);
  }
  rules.MergeFrom(policy.module_rules());
  policy.mutable_module_rules()->Swap(&rules);
  return policy;
}

std::optional<PrecisionRaise> Widen(const PrecisionRaise& raise, const precision::ResolvedPolicy& now,
                                    const std::string& module, const v1::Device& device) {
  if (now.formats.compute == graph::Dtype::kFloat32) {
    return std::nullopt;
  }
  PrecisionRaise wider = raise;
  if (!module.empty() && raise.fp32_modules.empty()) {
    wider.fp32_modules.push_back(module);
    return wider;
  }
  PrecisionPolicy bf16;
  bf16.set_preset("bf16");
  const bool has_bf16 = !precision::FindCapabilityGap(bf16, device).has_value();
  wider.preset = now.formats.compute == graph::Dtype::kFloat16 && has_bf16 ? "bf16" : "fp32";
  return wider;
}

std::string Describe(const PrecisionRaise& raise) {
  const std::string preset = raise.preset.empty() ? "" : absl::StrCat("in ", raise.preset);
  const std::string modules =
      raise.fp32_modules.empty() ? "" : absl::StrCat("with ", absl::StrJoin(raise.fp32_modules, ", "), " in fp32");
  return absl::StrCat(preset, preset.empty() || modules.empty() ? "" : " ", modules);
}

}  // namespace ampd::train
