#include "precision/policy.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/glob.h"
#include "base/status_macros.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::OpClass;
using v1::PrecisionPolicy;

// A preset's formats, and the compute capability, times ten, that a GPU needs for them.
struct Preset {
  std::string_view name;
  Dtype compute = Dtype::kFloat32;
  int capability = 0;
  bool tf32 = false;
};

constexpr Preset kPresets[] = {{"fp32"},
                               {"tf32", Dtype::kFloat32, 80, true},
                               {"bf16", Dtype::kBFloat16, 80, false},
                               {"fp16", Dtype::kFloat16, 70, false}};

const Preset* FindPreset(std::string_view name) {
  const auto* it =
      std::find_if(std::begin(kPresets), std::end(kPresets), [&](const Preset& p) { return p.name == name; });
  return it == std::end(kPresets) ? nullptr : it;
}

// Presets that are part of the contract and do not run yet.
bool IsKnown(std::string_view name) {
  static const auto* const known = new std::set<std::string_view>{
      "fp8",     "auto",    "torch-amp-fp16", "torch-amp-bf16",      "apex-o0",
      "apex-o1", "apex-o2", "apex-o3",        "keras-mixed-float16", "keras-mixed-bfloat16"};
  return FindPreset(name) != nullptr || known->contains(name);
}

bool Has(const v1::Device& device, std::string_view instruction_set) {
  return std::find(device.instruction_sets().begin(), device.instruction_sets().end(), instruction_set) !=
         device.instruction_sets().end();
}

// Collects violations below one path.
class Checker {
 public:
  void Require(bool ok, std::string_view field, double value, std::string_view limit) {
    if (!ok) {
      found_.push_back({absl::StrCat("precision.", std::string(field)),
                        absl::StrCat("is ", value, "; it must be ", std::string(limit))});
    }
  }
  void Fail(std::string field, std::string why) { found_.push_back({"precision." + std::move(field), std::move(why)}); }
  std::vector<FieldViolation> Take() { return std::move(found_); }

 private:
  std::vector<FieldViolation> found_;
};

bool Positive(double value) { return value > 0 && value <= std::numeric_limits<float>::max(); }

void CheckDynamic(const v1::DynamicLossScale& d, Checker& check) {
  const std::string path = "loss_scale.dynamic.";
  check.Require(!d.has_initial() || Positive(d.initial()), path + "initial", d.initial(), "above 0 and finite in fp32");
  check.Require(!d.has_growth_factor() || (d.growth_factor() > 1 && Positive(d.growth_factor())),
                path + "growth_factor", d.growth_factor(), "above 1 and finite");
  check.Require(!d.has_backoff_factor() || (d.backoff_factor() > 0 && d.backoff_factor() < 1), path + "backoff_factor",
                d.backoff_factor(), "between 0 and 1");
  check.Require(!d.has_growth_interval() || d.growth_interval() >= 1, path + "growth_interval", d.growth_interval(),
                "at least 1");
  check.Require(!d.has_floor() || Positive(d.floor()), path + "floor", d.floor(), "above 0 and finite in fp32");
  check.Require(!d.has_cap() || Positive(d.cap()), path + "cap", d.cap(), "above 0 and finite in fp32");
  check.Require(!d.has_hysteresis() || d.hysteresis() >= 1, path + "hysteresis", d.hysteresis(), "at least 1");
  const double initial = d.has_initial() ? d.initial() : 65536;
  check.Require(!d.has_floor() || !(d.floor() > initial), path + "floor", d.floor(), "at most the initial scale");
  check.Require(!d.has_cap() || !(d.cap() < initial), path + "cap", d.cap(), "at least the initial scale");
}

void CheckDtypes(const PrecisionPolicy& policy, Checker& check) {
  using P = PrecisionPolicy;
  const std::pair<const char*, P::Dtype> below_fp32[] = {
      {"compute", policy.compute()},        {"parameter", policy.parameter()},
      {"gradient", policy.gradient()},      {"accumulation", policy.accumulation()},
      {"reduction", policy.reduction()},    {"optimizer_state", policy.optimizer_state()},
      {"fp32_matmul", policy.fp32_matmul()}};
  for (const auto& [field, dtype] : below_fp32) {
    if (!P::Dtype_IsValid(dtype)) {
      check.Fail(field, absl::StrCat("is ", static_cast<int>(dtype), "; it is no number format"));
    } else if (dtype == P::none || dtype == P::bf16_remainder16) {
      check.Fail(field, absl::StrCat("is ", P::Dtype_Name(dtype), "; only masters may be that"));
    }
  }
  if (policy.fp32_matmul() != P::DTYPE_UNSPECIFIED && policy.fp32_matmul() != P::fp32 &&
      policy.fp32_matmul() != P::tf32) {
    check.Fail("fp32_matmul", "must be fp32 or tf32");
  }
}

LossScaleConfig DynamicFrom(const v1::DynamicLossScale& d) {
  LossScaleConfig config;
  config.kind = LossScaleConfig::Kind::kDynamic;
  config.initial = d.has_initial() ? d.initial() : 65536;
  config.growth_factor = d.has_growth_factor() ? d.growth_factor() : config.growth_factor;
  config.backoff_factor = d.has_backoff_factor() ? d.backoff_factor() : config.backoff_factor;
  config.growth_interval = d.has_growth_interval() ? d.growth_interval() : config.growth_interval;
  config.floor = d.floor();
  config.cap = d.has_cap() ? d.cap() : config.cap;
  config.hysteresis = d.has_hysteresis() ? d.hysteresis() : config.hysteresis;
  config.refill_on_every_good_step = d.hysteresis_refill() == v1::DynamicLossScale::ON_EVERY_GOOD_STEP;
  config.at_floor =
      d.at_floor() == v1::DynamicLossScale::FAIL ? LossScaleConfig::AtFloor::kFail : LossScaleConfig::AtFloor::kClamp;
  return config;
}

LossScaleConfig LossScaleOf(const PrecisionPolicy& policy, Dtype compute) {
  switch (policy.loss_scale().kind_case()) {
    case v1::LossScale::kDynamic:
      return DynamicFrom(policy.loss_scale().dynamic());
    case v1::LossScale::kFixed: {
      LossScaleConfig config;
      config.kind = LossScaleConfig::Kind::kStatic;
      config.initial = policy.loss_scale().fixed().scale();
      return config;
    }
    case v1::LossScale::kOff:
      return {};
    case v1::LossScale::KIND_NOT_SET:
      break;
  }
  return compute == Dtype::kFloat16 ? DynamicFrom({}) : LossScaleConfig();
}

absl::StatusOr<Dtype> StorageDtype(std::string_view field, PrecisionPolicy::Dtype dtype) {
  switch (dtype) {
    case PrecisionPolicy::fp32:
      return Dtype::kFloat32;
    case PrecisionPolicy::bf16:
      return Dtype::kBFloat16;
    case PrecisionPolicy::fp16:
      return Dtype::kFloat16;
    default:
      return UnsupportedField(absl::StrCat("precision.", std::string(field)),
                              absl::StrCat(PrecisionPolicy::Dtype_Name(dtype), " is not supported here"));
  }
}

// Fields that may only repeat what the engine does: fp32 everywhere outside of the compute dtype.
absl::Status CheckSupported(const PrecisionPolicy& policy, PrecisionPolicy::Dtype compute) {
  using P = PrecisionPolicy;
  const std::pair<const char*, P::Dtype> fixed_fp32[] = {{"accumulation", policy.accumulation()},
                                                         {"reduction", policy.reduction()},
                                                         {"optimizer_state", policy.optimizer_state()}};
  for (const auto& [field, dtype] : fixed_fp32) {
    if (dtype != P::DTYPE_UNSPECIFIED && dtype != P::fp32) {
      return UnsupportedField(absl::StrCat("precision.", field), "only fp32 is supported");
    }
  }
  for (const auto& [field, dtype] : {std::pair("parameter", policy.parameter()), {"gradient", policy.gradient()}}) {
    if (dtype != P::DTYPE_UNSPECIFIED && dtype != compute) {
      return UnsupportedField(absl::StrCat("precision.", field), "it must be the compute dtype");
    }
  }
  if (policy.master() != P::DTYPE_UNSPECIFIED && policy.master() != P::fp32 && policy.master() != P::none) {
    return UnsupportedField("precision.master", "only fp32 and none are supported");
  }
  if (policy.cast_mode() == P::CAST) {
    return UnsupportedField("precision.cast_mode", "only MASTER is supported");
  }
  if (policy.has_fp8()) {
    return UnsupportedField("precision.fp8", "FP8 is not supported");
  }
  if (policy.stochastic_rounding()) {
    return UnsupportedField("precision.stochastic_rounding", "it is not supported");
  }
  if (policy.loss_scale().dynamic().at_floor() == v1::DynamicLossScale::FALL_BACK) {
    return UnsupportedField("precision.loss_scale.dynamic.at_floor", "FALL_BACK is not supported");
  }
  return absl::OkStatus();
}

absl::Status RefuseHarmful(const PrecisionPolicy& policy, Dtype compute, OptimizerKind optimizer) {
  if (policy.master() != PrecisionPolicy::none || compute == Dtype::kFloat32) {
    return absl::OkStatus();
  }
  if (policy.allow_unsafe()) {
    return UnsupportedField("precision.master", "training without masters is not supported, also not as unsafe");
  }
  if (compute == Dtype::kFloat16) {
    return InvalidFields({{"precision.master", "is none; fp16 parameters need a fp32 master"}});
  }
  if (optimizer == OptimizerKind::kAdam) {
    return InvalidFields({{"precision.master", "is none; AdamW's updates vanish in bf16 parameters without a master"}});
  }
  return UnsupportedField("precision.master", "none is not supported");
}

OpClass ClassOf(v1::OpRule::Class rule) {
  switch (rule) {
    case v1::OpRule::lower:
      return OpClass::kLower;
    case v1::OpRule::promote:
      return OpClass::kPromote;
    case v1::OpRule::banned:
      return OpClass::kBanned;
    case v1::OpRule::as_input:
      return OpClass::kAsInput;
    default:
      return OpClass::kFp32;
  }
}

absl::Status TakeRules(const PrecisionPolicy& policy, ResolvedPolicy& resolved) {
  for (const auto& rule : policy.op_rules()) {
    resolved.op_rules.emplace_back(rule.match(), ClassOf(rule.policy()));
  }
  for (int i = 0; i < policy.module_rules_size(); ++i) {
    const v1::ModuleRule& rule = policy.module_rules(i);
    const std::string path = absl::StrCat("module_rules[", i, "].");
    if (rule.parameter() != PrecisionPolicy::DTYPE_UNSPECIFIED) {
      return UnsupportedField("precision." + path + "parameter", "parameters follow `compute`");
    }
    if (rule.exclude_forward() || rule.exclude_input_gradient() || rule.exclude_weight_gradient()) {
      return UnsupportedField("precision." + path + "exclude_forward", "FP8 is not supported");
    }
    AMPD_ASSIGN_OR_RETURN(const Dtype dtype, StorageDtype(path + "compute", rule.compute()));
    if (dtype != resolved.compute && dtype != Dtype::kFloat32) {
      return UnsupportedField("precision." + path + "compute", "it must be fp32 or the policy's compute dtype");
    }
    resolved.module_rules.emplace_back(rule.match(), dtype);
  }
  return absl::OkStatus();
}

// A parameter is stored in the compute dtype when every op that reads it computes in that.
void FillTable(const graph::Graph& graph, ResolvedPolicy& resolved) {
  std::map<graph::ValueId, bool> lower;
  for (const graph::Node& node : graph.nodes()) {
    const OpDecision decision = DecideOp(resolved, node);
    resolved.ops.push_back({node.op, node.module_path, decision});
    const bool is_lower = decision.op_class == OpClass::kLower && decision.compute != Dtype::kFloat32;
    for (graph::ValueId use : node.Uses()) {
      lower[use] = (lower.contains(use) ? lower[use] : true) && is_lower;
    }
  }
  for (const graph::State& parameter : graph.parameters()) {
    const bool low = lower.contains(parameter.value) && lower[parameter.value];
    resolved.parameters.push_back({parameter.name, low ? resolved.compute : Dtype::kFloat32, low});
  }
}

// What can be seen to be of no use, or of harm, though it runs.
void Warn(const graph::Graph& graph, ResolvedPolicy& resolved) {
  if (resolved.compute == Dtype::kFloat16 && resolved.loss_scale.kind == LossScaleConfig::Kind::kOff) {
    resolved.warnings.push_back("precision.loss_scale is off: gradients below 6e-8 become 0 in fp16");
  }
  const auto& nodes = graph.nodes();
  for (const auto& [match, dtype] : resolved.module_rules) {
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&match = match](const graph::Node& node) { return GlobMatches(match, node.module_path); })) {
      resolved.warnings.push_back(absl::StrCat("precision.module_rules: \"", match, "\" matches no module"));
    }
  }
  for (const auto& [match, op_class] : resolved.op_rules) {
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&match = match](const graph::Node& node) { return GlobMatches(match, node.op); })) {
      resolved.warnings.push_back(absl::StrCat("precision.op_rules: \"", match, "\" matches no op"));
    }
  }
}

}  // namespace

std::vector<std::string> Presets() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    names.emplace_back(preset.name);
  }
  return names;
}

std::string PresetOf(const PrecisionPolicy& policy) {
  if (!policy.preset().empty()) {
    return policy.preset();
  }
  return policy.prefer_size() > 0 ? policy.prefer(0) : "fp32";
}

std::vector<FieldViolation> ValidatePolicy(const PrecisionPolicy& policy) {
  Checker check;
  if (!policy.preset().empty() && !IsKnown(policy.preset())) {
    check.Fail("preset", absl::StrCat("is \"", policy.preset(), "\"; supported are fp32, tf32, bf16 and fp16"));
  }
  if (!policy.preset().empty() && policy.prefer_size() > 0) {
    check.Fail("prefer", "excludes precision.preset; give one of them");
  }
  for (int i = 0; i < policy.prefer_size(); ++i) {
    if (!IsKnown(policy.prefer(i))) {
      check.Fail(absl::StrCat("prefer[", i, "]"), absl::StrCat("is \"", policy.prefer(i), "\", which is no preset"));
    }
  }
  CheckDtypes(policy, check);
  if (policy.loss_scale().has_dynamic()) {
    CheckDynamic(policy.loss_scale().dynamic(), check);
  } else if (policy.loss_scale().has_fixed()) {
    const double scale = policy.loss_scale().fixed().scale();
    check.Require(Positive(scale), "loss_scale.static.scale", scale, "above 0 and finite in fp32");
  }
  for (int i = 0; i < policy.op_rules_size(); ++i) {
    if (policy.op_rules(i).match().empty() || policy.op_rules(i).policy() == v1::OpRule::CLASS_UNSPECIFIED) {
      check.Fail(absl::StrCat("op_rules[", i, "]"), "needs `match` and `policy`");
    }
  }
  for (int i = 0; i < policy.module_rules_size(); ++i) {
    if (policy.module_rules(i).match().empty()) {
      check.Fail(absl::StrCat("module_rules[", i, "].match"), "is empty");
    }
  }
  return check.Take();
}

std::optional<CapabilityGap> FindCapabilityGap(std::string_view preset_name, const v1::Device& device) {
  const Preset* preset = FindPreset(preset_name);
  if (preset == nullptr) {
    return CapabilityGap{0, 0, absl::StrCat(std::string(preset_name), " is not supported")};
  }
  const bool is_gpu = device.kind() == v1::Device::GPU;
  const int available = is_gpu ? device.capability_major() * 10 + device.capability_minor() : 0;
  if (is_gpu ? available >= preset->capability : !preset->tf32) {
    return std::nullopt;
  }
  const std::string needs = absl::StrCat(std::string(preset_name), " needs ", is_gpu ? "" : "a GPU of ",
                                         "compute capability ", preset->capability / 10, ".", preset->capability % 10);
  const std::string has = absl::StrCat("; ", device.id(), is_gpu ? " has " : " is a CPU",
                                       is_gpu ? absl::StrCat(available / 10, ".", available % 10) : "");
  return CapabilityGap{preset->capability, available, needs + has};
}

absl::Status CheckCapability(std::string_view preset_name, const v1::Device& device) {
  if (FindPreset(preset_name) == nullptr) {
    return UnsupportedField("precision.preset", absl::StrCat(std::string(preset_name), " is not supported"));
  }
  const std::optional<CapabilityGap> gap = FindCapabilityGap(preset_name, device);
  return gap.has_value() ? Error(absl::StatusCode::kFailedPrecondition, "CAPABILITY_TOO_LOW", gap->message)
                         : absl::OkStatus();
}

bool IsEmulated(std::string_view preset_name, const v1::Device& device) {
  const Preset* preset = FindPreset(preset_name);
  if (preset == nullptr || device.kind() == v1::Device::GPU) {
    return false;
  }
  if (preset->compute == Dtype::kBFloat16) {
    return !Has(device, "avx512_bf16") && !Has(device, "amx_bf16");
  }
  return preset->compute == Dtype::kFloat16;
}

absl::StatusOr<ResolvedPolicy> ResolvePolicy(const PrecisionPolicy& policy, const graph::Graph& graph,
                                             const v1::Device& device, OptimizerKind optimizer) {
  if (const auto violations = ValidatePolicy(policy); !violations.empty()) {
    return InvalidFields(violations);
  }
  ResolvedPolicy resolved;
  resolved.preset = PresetOf(policy);
  if (policy.prefer_size() > 0) {
    for (const std::string& name : policy.prefer()) {
      if (CheckCapability(name, device).ok()) {
        resolved.preset = name;
        break;
      }
    }
  }
  AMPD_RETURN_IF_ERROR(CheckCapability(resolved.preset, device));
  const Preset& preset = *FindPreset(resolved.preset);
  resolved.compute = preset.compute;
  if (policy.compute() != PrecisionPolicy::DTYPE_UNSPECIFIED) {
    AMPD_ASSIGN_OR_RETURN(const Dtype compute, StorageDtype("compute", policy.compute()));
    if (compute != preset.compute) {
      return UnsupportedField("precision.compute", "it must be the preset's; choose another preset");
    }
  }
  const auto compute_field = preset.compute == Dtype::kBFloat16  ? PrecisionPolicy::bf16
                             : preset.compute == Dtype::kFloat16 ? PrecisionPolicy::fp16
                                                                 : PrecisionPolicy::fp32;
  AMPD_RETURN_IF_ERROR(RefuseHarmful(policy, resolved.compute, optimizer));
  AMPD_RETURN_IF_ERROR(CheckSupported(policy, compute_field));
  resolved.emulated = IsEmulated(resolved.preset, device);
  resolved.tf32_matmul = preset.tf32 || policy.fp32_matmul() == PrecisionPolicy::tf32;
  resolved.loss_scale = LossScaleOf(policy, resolved.compute);
  AMPD_RETURN_IF_ERROR(TakeRules(policy, resolved));
  FillTable(graph, resolved);
  Warn(graph, resolved);
  return resolved;
}

OpDecision DecideOp(const ResolvedPolicy& policy, const graph::Node& node) {
  const graph::OpRow* row = graph::FindOp(node.op);
  OpDecision decision{.op_class = row == nullptr ? OpClass::kFp32 : row->op_class, .compute = policy.compute};
  for (const auto& [match, op_class] : policy.op_rules) {
    if (GlobMatches(match, node.op)) {
      decision.op_class = op_class;
      break;
    }
  }
  for (const auto& [match, compute] : policy.module_rules) {
    if (GlobMatches(match, node.module_path)) {
      decision.compute = compute;
      break;
    }
  }
  decision.emulated = policy.emulated && decision.op_class == OpClass::kLower && decision.compute != Dtype::kFloat32;
  return decision;
}

}  // namespace ampd::precision
