#include "worker/train/health/precision_raise.h"

#include <algorithm>
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
                               "optimizer_state", "cast_mode", "stochastic_rounding", "fp8"}) {
      policy.GetReflection()->ClearField(&policy, policy.GetDescriptor()->FindFieldByName(format));
    }
    for (v1::ModuleRule& rule : *policy.mutable_module_rules()) {
      // A module rule that computes in fp32 keeps fp32. Any other module rule computes in the format of the preset to
      // which the job's precision is raised, fp32 or bf16.
      rule.set_compute(rule.compute() == PrecisionPolicy::fp32 || raise.preset == "fp32" ? PrecisionPolicy::fp32
                                                                                         : PrecisionPolicy::bf16);
    }
  }
  google::protobuf::RepeatedPtrField<v1::ModuleRule> rules;
  const auto add = [&rules](const std::vector<std::string>& modules, PrecisionPolicy::Dtype compute) {
    for (const std::string& module : modules) {
      v1::ModuleRule& rule = *rules.Add();
      rule.set_match(module);
      rule.set_compute(compute);
    }
  };
  add(raise.fp32_modules, PrecisionPolicy::fp32);
  add(raise.bf16_modules, PrecisionPolicy::bf16);
  rules.MergeFrom(policy.module_rules());
  policy.mutable_module_rules()->Swap(&rules);
  return policy;
}

std::optional<PrecisionRaise> Widen(const PrecisionRaise& raise, const precision::ResolvedPolicy& now,
                                    const std::string& module, const v1::Device& device) {
  PrecisionRaise wider = raise;
  if (!now.fp8_layers.empty()) {
    const bool in_fp8 = std::any_of(now.fp8_layers.begin(), now.fp8_layers.end(),
                                    [&](const precision::Fp8Layer& layer) { return layer.module_path == module; });
    if (in_fp8 && raise.bf16_modules.empty() && now.formats.compute == graph::Dtype::kBFloat16) {
      wider.bf16_modules.push_back(module);
      return wider;
    }
    wider.preset = now.formats.compute == graph::Dtype::kFloat32 ? "fp32" : "bf16";
    wider.bf16_modules.clear();
    return wider;
  }
  if (now.formats.compute == graph::Dtype::kFloat32) {
    return std::nullopt;
  }
  if (!module.empty() && raise.fp32_modules.empty()) {
    std::erase(wider.bf16_modules, module);
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
  std::vector<std::string> words;
  if (!raise.preset.empty()) {
    words.push_back(absl::StrCat("in ", raise.preset));
  }
  for (const auto& [modules, format] : {std::pair(&raise.fp32_modules, "fp32"), {&raise.bf16_modules, "bf16"}}) {
    if (!modules->empty()) {
      words.push_back(absl::StrCat("with ", absl::StrJoin(*modules, ", "), " in ", format));
    }
  }
  return absl::StrJoin(words, " ");
}

}  // namespace ampd::train
