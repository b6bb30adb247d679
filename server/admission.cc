#include "server/admission.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "ampd/v1/worker.pb.h"
#include "base/status_macros.h"
#include "precision/policy.h"
#include "server/admission_findings.h"

namespace ampd::server {
namespace {

constexpr std::array kPresets = {"fp32", "tf32", "bf16", "fp16"};
// Named in the contract, not in this server.
constexpr std::array kLaterPresets = {"fp8", "auto"};
constexpr std::array kLaterFamilies = {"torch-amp-", "apex-", "keras-", "deepspeed-", "megatron-", "fp8-"};

constexpr int kMaxPreferred = 8;
constexpr int kMaxLabels = 32;
constexpr size_t kMaxLabelBytes = 128;

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 63 && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; });
}

// At most the first bytes of what a user wrote, for a message.
std::string Shown(const std::string& text) { return text.size() <= 80 ? text : text.substr(0, 80) + "..."; }

void AdmitPresetName(const std::string& field, const std::string& preset, Findings& findings) {
  if (std::find(kPresets.begin(), kPresets.end(), preset) != kPresets.end()) {
    return;
  }
  const bool known = std::find(kLaterPresets.begin(), kLaterPresets.end(), preset) != kLaterPresets.end() ||
                     std::any_of(kLaterFamilies.begin(), kLaterFamilies.end(),
                                 [&](const char* family) { return absl::StartsWith(preset, family); });
  if (known) {
    findings.Unsupported(field, absl::StrCat("\"", Shown(preset), "\": this server has fp32, tf32, bf16 and fp16"));
  } else {
    findings.Wrong(field, absl::StrCat("is \"", Shown(preset), "\"; must be one of fp32, tf32, bf16, fp16"));
  }
}

// The presets that the job may run in: the one that is named, or those to choose from.
std::vector<std::string> AdmitPresets(v1::PrecisionPolicy* policy, Findings& findings) {
  if (policy->prefer().empty()) {
    if (policy->preset().empty()) policy->set_preset("fp32");
    AdmitPresetName("precision.preset", policy->preset(), findings);
    return {policy->preset()};
  }
  if (!policy->preset().empty()) {
    findings.Wrong("precision.prefer", "excludes precision.preset; give one of them");
  }
  if (policy->prefer_size() > kMaxPreferred) {
    findings.Wrong("precision.prefer",
                   absl::StrCat("has ", policy->prefer_size(), " entries; at most ", kMaxPreferred));
  }
  for (int i = 0; i < policy->prefer_size(); ++i) {
    AdmitPresetName(absl::StrCat("precision.prefer[", i, "]"), policy->prefer(i), findings);
  }
  return {policy->prefer().begin(), policy->prefer().end()};
}

// Whether the trainer will take the rules, by asking what it asks, for each preset that placement may choose.
void AdmitRules(const v1::JobSpec& spec, const std::vector<std::string>& presets, Findings& findings) {
  v1::Device device;
  device.set_kind(v1::Device::GPU);
  device.set_capability_major(99);
  v1::PrecisionPolicy rules;
  *rules.mutable_op_rules() = spec.precision().op_rules();
  *rules.mutable_module_rules() = spec.precision().module_rules();
  const auto optimizer = spec.optimizer().has_sgd() ? precision::OptimizerKind::kSgd : precision::OptimizerKind::kAdam;
  for (const std::string& preset : presets) {
    rules.set_preset(preset);
    const absl::Status resolved = precision::ResolvePolicy(rules, graph::Graph("rules"), device, optimizer).status();
    if (resolved.ok() || std::find(kPresets.begin(), kPresets.end(), preset) == kPresets.end()) {
      continue;  // what is wrong with the name is known already
    }
    for (const FieldViolation& violation : ViolationsOf(resolved)) {
      if (absl::IsUnimplemented(resolved)) {
        findings.Unsupported(violation.field, std::string(absl::StripPrefix(violation.description, kNotSupported)));
      } else {
        findings.Wrong(violation.field, violation.description);
      }
    }
    return;
  }
}

void AdmitDynamicScale(const v1::DynamicLossScale& scale, Findings& findings) {
  const std::string at = "precision.loss_scale.dynamic.";
  constexpr double kMaxScale = std::numeric_limits<float>::max();
  if (scale.has_initial()) findings.Real(at + "initial", scale.initial(), 0, kMaxScale, true);
  if (scale.has_growth_factor()) findings.Real(at + "growth_factor", scale.growth_factor(), 1, 1e6, true);
  if (scale.has_backoff_factor()) findings.Real(at + "backoff_factor", scale.backoff_factor(), 0, 1, true, true);
  if (scale.has_growth_interval()) findings.Range(at + "growth_interval", scale.growth_interval(), 1, 1 << 30);
  if (scale.has_floor()) findings.Real(at + "floor", scale.floor(), 0, kMaxScale, true);
  if (scale.has_cap()) findings.Real(at + "cap", scale.cap(), 0, kMaxScale, true);
  if (scale.has_hysteresis()) findings.Range(at + "hysteresis", scale.hysteresis(), 1, 1 << 20);
  if (scale.has_floor() && scale.has_cap() && scale.floor() > scale.cap()) {
    findings.Wrong(at + "floor", absl::StrCat("is ", scale.floor(), ", above the cap, ", scale.cap()));
  }
  if (!v1::DynamicLossScale::AtFloor_IsValid(scale.at_floor()) ||
      !v1::DynamicLossScale::HysteresisRefill_IsValid(scale.hysteresis_refill())) {
    findings.Wrong("precision.loss_scale.dynamic", "has an unknown at_floor or hysteresis_refill");
  }
  findings.UnsupportedIf(scale.at_floor() == v1::DynamicLossScale::FALL_BACK, at + "at_floor",
                         "FALL_BACK is not supported yet");
}

void AdmitLossScale(const v1::PrecisionPolicy& policy, Findings& findings) {
  const v1::LossScale& scale = policy.loss_scale();
  if (scale.has_fixed()) {
    findings.Real("precision.loss_scale.static.scale", scale.fixed().scale(), 0, std::numeric_limits<float>::max(),
                  true);
  } else if (scale.has_dynamic()) {
    AdmitDynamicScale(scale.dynamic(), findings);
  }
}

void AdmitLabels(const v1::JobSpec& spec, Findings& findings) {
  if (spec.labels_size() > kMaxLabels) {
    findings.Wrong("labels", absl::StrCat("has ", spec.labels_size(), " entries; at most ", kMaxLabels));
  }
  for (const auto& [key, value] : spec.labels()) {
    if (key.empty() || key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes) {
      findings.Wrong(absl::StrCat("labels.", Shown(key)),
                     absl::StrCat("has a key of ", key.size(), " and a value of ", value.size(),
                                  " bytes; keys have 1 to 128, values at most 128"));
    }
  }
}

void AdmitDivergence(v1::JobSpec* spec, Findings& findings) {
  if (spec->on_divergence() == v1::JobSpec::ON_DIVERGENCE_UNSPECIFIED) spec->set_on_divergence(v1::JobSpec::FAIL);
  if (!v1::JobSpec::OnDivergence_IsValid(spec->on_divergence())) {
    findings.Wrong("on_divergence", absl::StrCat("is ", spec->on_divergence(), "; must be WARN or FAIL"));
  }
  findings.UnsupportedIf(spec->on_divergence() >= v1::JobSpec::ROLL_BACK, "on_divergence",
                         "this server has WARN and FAIL");
}

void AdmitIdentity(v1::JobSpec* spec, Findings& findings) {
  if (!IsName(spec->name())) {
    findings.Wrong("name", absl::StrCat("is \"", Shown(spec->name()),
                                        "\"; must be 1 to 63 of a-z 0-9 and '-', beginning with a letter"));
  }
  if (spec->queue().empty()) spec->set_queue("default");
  findings.UnsupportedIf(spec->queue() != "default", "queue", "this server has one queue, \"default\"");
  findings.Range("priority", spec->priority(), -1000, 1000);
  if (!spec->has_max_retries()) spec->set_max_retries(2);
  findings.Range("max_retries", spec->max_retries(), 0, 100);
  AdmitLabels(*spec, findings);
  AdmitDivergence(spec, findings);
}

}  // namespace

void AdmitPrecision(v1::JobSpec* spec, Findings& findings) {
  v1::PrecisionPolicy* policy = spec->mutable_precision();
  const std::vector<std::string> presets = AdmitPresets(policy, findings);
  AdmitLossScale(*policy, findings);
  AdmitRules(*spec, presets, findings);
  const auto unsupported = [&](bool is_set, const char* field) { findings.UnsupportedIf(is_set, field); };
  unsupported(policy->compute() != 0, "precision.compute");
  unsupported(policy->parameter() != 0, "precision.parameter");
  unsupported(policy->master() != 0, "precision.master");
  unsupported(policy->gradient() != 0, "precision.gradient");
  unsupported(policy->accumulation() != 0, "precision.accumulation");
  unsupported(policy->reduction() != 0, "precision.reduction");
  unsupported(policy->optimizer_state() != 0, "precision.optimizer_state");
  unsupported(policy->cast_mode() != 0, "precision.cast_mode");
  unsupported(policy->has_fp8(), "precision.fp8");
  unsupported(policy->fp32_matmul() != 0, "precision.fp32_matmul");
  unsupported(policy->stochastic_rounding(), "precision.stochastic_rounding");
  unsupported(policy->allow_unsafe(), "precision.allow_unsafe");
}

void AdmitResources(v1::JobSpec* spec, Findings& findings) {
  v1::ResourceSpec* resources = spec->mutable_resources();
  if (resources->devices() == 0) resources->set_devices(1);
  findings.Range("resources.devices", resources->devices(), 1, 1 << 20);
  findings.UnsupportedIf(resources->devices() > 1, "resources.devices", "an attempt runs on one device");
  findings.Range("resources.memory_bytes", resources->memory_bytes(), 0, int64_t{1} << 50);
  if (!v1::ResourceSpec::Kind_IsValid(resources->kind())) {
    findings.Wrong("resources.kind", absl::StrCat("is ", resources->kind(), "; must be AUTO, CPU or GPU"));
  }
  if (resources->worker().size() > 253) {
    findings.Wrong("resources.worker", absl::StrCat("has ", resources->worker().size(), " bytes; at most 253"));
  }
  if (spec->precision().preset() == "tf32" && resources->kind() == v1::ResourceSpec::CPU) {
    findings.Wrong("precision.preset", "is tf32, which needs a GPU, but resources.kind is CPU");
  }
  if (spec->has_deadline() && (spec->deadline().seconds() < 1 || spec->deadline().seconds() > 315'576'000)) {
    findings.Wrong("deadline", absl::StrCat("is ", spec->deadline().seconds(), " s; must be 1 to 315576000 s"));
  }
}

absl::StatusOr<v1::JobSpec> AdmitSpec(const v1::JobSpec& spec) {
  if (static_cast<int64_t>(spec.ByteSizeLong()) > kMaxSpecBytes) {
    return InvalidFields({{"spec", absl::StrCat("has ", spec.ByteSizeLong(), " bytes; at most ", kMaxSpecBytes)}});
  }
  v1::JobSpec admitted = spec;
  Findings findings;
  AdmitIdentity(&admitted, findings);
  AdmitModel(admitted.mutable_model(), findings);
  AdmitData(&admitted, findings);
  AdmitPrecision(&admitted, findings);
  AdmitTraining(&admitted, findings);
  AdmitResources(&admitted, findings);
  AMPD_RETURN_IF_ERROR(findings.ToStatus());
  return admitted;
}

}  // namespace ampd::server
