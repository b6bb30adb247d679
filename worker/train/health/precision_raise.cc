#include "worker/train/health/precision_raise.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "precision/bans.h"
#include "precision/capability.h"
#include "precision/formats.h"
#include "precision/preset.h"

namespace ampd::train {

using v1::PrecisionPolicy;

namespace {

// The job's precision is raised to `preset`, fp32 or bf16. Makes a module rule compute in this format too, unless it
// computes in fp32 already.
void RaiseRule(const std::string& preset, v1::ModuleRule& rule) {
  const bool is_fp32 = preset == "fp32" || precision::StorageDtype(rule.compute()) == graph::Dtype::kFloat32;
  rule.set_compute(is_fp32 ? PrecisionPolicy::fp32 : PrecisionPolicy::bf16);
  // Any other format of the parameters is the one in which the module computed before, which the rule only repeats.
  if (precision::StorageDtype(rule.parameter()) != graph::Dtype::kFloat32) {
    rule.clear_parameter();
  }
}

// Keeps the initial loss scale between the floor and the cap. The policy may set only some of the three. The others
// are now those of another preset, and may not fit.
void KeepScaleInBounds(PrecisionPolicy& policy) {
  const precision::Preset* const preset = precision::FindPreset(policy.preset());
  if (policy.loss_scale().has_dynamic() && preset != nullptr) {
    const precision::LossScaleConfig config = precision::ResolveLossScale(policy, *preset);
    policy.mutable_loss_scale()->mutable_dynamic()->set_initial(
        std::max(std::min(config.initial, config.cap), config.floor));
  }
}

// Whether a product is computed in a format narrower than fp32.
bool HasNarrowProduct(const precision::ResolvedPolicy& policy) {
  return policy.formats.compute != graph::Dtype::kFloat32 ||
         std::any_of(policy.ops.begin(), policy.ops.end(), [](const precision::OpRow& row) {
           return row.decision.op_class == graph::OpClass::kLower && row.decision.compute != graph::Dtype::kFloat32;
         });
}

}  // namespace

PrecisionPolicy Raised(PrecisionPolicy policy, const PrecisionRaise& raise) {
  if (!raise.preset.empty()) {
    policy.set_preset(raise.preset);
    policy.clear_prefer();
    for (const char* format : {"compute", "parameter", "master", "gradient", "accumulation", "reduction",
                               "optimizer_state", "cast_mode", "stochastic_rounding", "fp8"}) {
      policy.GetReflection()->ClearField(&policy, policy.GetDescriptor()->FindFieldByName(format));
    }
    for (v1::ModuleRule& rule : *policy.mutable_module_rules()) {
      RaiseRule(raise.preset, rule);
    }
    KeepScaleInBounds(policy);
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

absl::StatusOr<precision::ResolvedPolicy> ResolveRaised(const PrecisionPolicy& policy, const PrecisionRaise& raise,
                                                        const graph::Graph& program, const v1::Device& device,
                                                        precision::OptimizerKind optimizer) {
  PrecisionPolicy raised = Raised(policy, raise);
  auto resolved = precision::ResolvePolicy(raised, program, device, optimizer);
  if (!resolved.ok() || raise.preset.empty()) {
    return resolved;
  }
  std::set<std::string> banned;
  for (const graph::Node& node : program.nodes()) {
    if (!precision::CheckBan(node, precision::DecideOp(*resolved, program, node), *resolved).ok()) {
      banned.insert(node.op);
    }
  }
  for (const std::string& op : banned) {
    v1::OpRule& rule = *raised.add_op_rules();
    rule.set_match(op);
    rule.set_policy(v1::OpRule::fp32);
  }
  return banned.empty() ? std::move(resolved) : precision::ResolvePolicy(raised, program, device, optimizer);
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
  if (!HasNarrowProduct(now)) {
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
  wider.bf16_modules.clear();  // Their rules would keep these modules in bf16 under the preset fp32.
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
