#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ampd/v1/precision.pb.h"
#include "base/text.h"
#include "precision/capability.h"
#include "precision/formats.h"
#include "precision/loss_scale.h"
#include "precision/policy.h"
#include "precision/preset.h"

namespace ampd::precision {
namespace {

using v1::PrecisionPolicy;

// A message shows at most this many bytes of a user's text.
constexpr size_t kShownBytes = 80;

constexpr int kMaxAmaxHistory = 65536;
// Limits on rules, because each rule is compared with every node of the model.
constexpr int kMaxRules = 64;
constexpr size_t kMaxMatchBytes = 256;
constexpr int kMaxMargin = 16;

// Collects violations of the fields below one path.
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

// Who made the policy that is checked.
enum class Source { kUser, kAdmittedJob };

bool Positive(double value) { return value > 0 && value <= std::numeric_limits<float>::max(); }

// Checks a loss scale. Gradients are divided by it in fp32, so a user may give only scales whose reciprocal is finite.
void CheckScale(const std::string& field, double scale, Source source, Checker& check) {
  const double least = source == Source::kUser ? ScaleRange().least : 0;
  check.Require(Positive(scale) && scale >= least, field, scale,
                least > 0 ? absl::StrCat("at least ", LossScaleText(least), " and finite in fp32")
                          : "above 0 and finite in fp32");
}

void CheckDynamic(const v1::DynamicLossScale& d, Source source, Checker& check) {
  const std::string path = "loss_scale.dynamic.";
  for (const auto& [field, is_set, scale] : {std::tuple("initial", d.has_initial(), d.initial()),
                                             {"floor", d.has_floor(), d.floor()},
                                             {"cap", d.has_cap(), d.cap()}}) {
    if (is_set) {
      CheckScale(path + field, scale, source, check);
    }
  }
  check.Require(!d.has_growth_factor() || (d.growth_factor() > 1 && Positive(d.growth_factor())),
                path + "growth_factor", d.growth_factor(), "above 1 and finite");
  check.Require(!d.has_backoff_factor() || (d.backoff_factor() > 0 && d.backoff_factor() < 1), path + "backoff_factor",
                d.backoff_factor(), "between 0 and 1");
  check.Require(!d.has_growth_interval() || d.growth_interval() >= 1, path + "growth_interval", d.growth_interval(),
                "at least 1");
  check.Require(!d.has_hysteresis() || d.hysteresis() >= 1, path + "hysteresis", d.hysteresis(), "at least 1");
  check.Require(v1::DynamicLossScale::HysteresisRefill_IsValid(d.hysteresis_refill()), path + "hysteresis_refill",
                d.hysteresis_refill(), "a known one");
  check.Require(v1::DynamicLossScale::AtFloor_IsValid(d.at_floor()), path + "at_floor", d.at_floor(), "a known one");
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
  if (!P::Dtype_IsValid(policy.master())) {
    check.Fail("master", absl::StrCat("is ", static_cast<int>(policy.master()), "; it is no number format"));
  }
  if (!P::CastMode_IsValid(policy.cast_mode())) {
    check.Fail("cast_mode", absl::StrCat("is ", static_cast<int>(policy.cast_mode()), "; it must be MASTER or CAST"));
  }
  if (policy.fp32_matmul() != P::DTYPE_UNSPECIFIED && policy.fp32_matmul() != P::fp32 &&
      policy.fp32_matmul() != P::tf32) {
    check.Fail("fp32_matmul", "must be fp32 or tf32");
  }
}

void CheckSizes(const std::string& field, int num_rules, const std::function<const std::string&(int)>& match,
                Checker& check) {
  if (num_rules > kMaxRules) {
    return check.Fail(field, absl::StrCat("has ", num_rules, " entries; at most ", kMaxRules));
  }
  for (int i = 0; i < num_rules; ++i) {
    if (match(i).size() > kMaxMatchBytes) {
      check.Fail(absl::StrCat(field, "[", i, "].match"),
                 absl::StrCat("has ", match(i).size(), " bytes; at most ", kMaxMatchBytes));
    }
  }
}

void CheckRules(const PrecisionPolicy& policy, Source source, Checker& check) {
  if (source == Source::kUser) {
    CheckSizes(
        "op_rules", policy.op_rules_size(), [&](int i) -> auto& { return policy.op_rules(i).match(); }, check);
    CheckSizes(
        "module_rules", policy.module_rules_size(), [&](int i) -> auto& { return policy.module_rules(i).match(); },
        check);
  }
  for (int i = 0; i < policy.op_rules_size(); ++i) {
    if (policy.op_rules(i).match().empty() || policy.op_rules(i).policy() == v1::OpRule::CLASS_UNSPECIFIED ||
        !v1::OpRule::Class_IsValid(policy.op_rules(i).policy())) {
      check.Fail(absl::StrCat("op_rules[", i, "]"), "needs `match` and `policy`");
    }
  }
  for (int i = 0; i < policy.module_rules_size(); ++i) {
    const v1::ModuleRule& rule = policy.module_rules(i);
    const std::string path = absl::StrCat("module_rules[", i, "].");
    if (rule.match().empty()) {
      check.Fail(path + "match", "is empty");
    }
    for (const auto& [field, dtype] : {std::pair("compute", rule.compute()), {"parameter", rule.parameter()}}) {
      const bool fp8 = dtype == PrecisionPolicy::fp8_e4m3 || dtype == PrecisionPolicy::fp8_e5m2;
      if (dtype != PrecisionPolicy::DTYPE_UNSPECIFIED && !fp8 && !StorageDtype(dtype).has_value()) {
        check.Fail(path + field, "must be fp32, bf16 or fp16");
      } else if (fp8 && (dtype == PrecisionPolicy::fp8_e5m2 || field == std::string_view("parameter"))) {
        check.Fail(path + field,
                   absl::StrCat("is ", PrecisionPolicy::Dtype_Name(dtype),
                                "; FP8 is asked for with compute fp8_e4m3, and gradients have what the recipe says"));
      }
    }
  }
}

void CheckFp8(const v1::Fp8Recipe& fp8, Checker& check) {
  const std::string path = "fp8.";
  check.Require(v1::Fp8Recipe::Scaling_IsValid(fp8.scaling()), path + "scaling", fp8.scaling(), "a known one");
  check.Require(!fp8.has_amax_history_length() ||
                    (fp8.amax_history_length() >= 1 && fp8.amax_history_length() <= kMaxAmaxHistory),
                path + "amax_history_length", fp8.amax_history_length(), absl::StrCat("1 to ", kMaxAmaxHistory));
  check.Require(!fp8.has_margin() || (fp8.margin() >= 0 && fp8.margin() <= kMaxMargin), path + "margin", fp8.margin(),
                absl::StrCat("0 to ", kMaxMargin));
  check.Require(!fp8.has_amax_epsilon() || Positive(fp8.amax_epsilon()), path + "amax_epsilon", fp8.amax_epsilon(),
                "above 0 and finite in fp32");
  check.Require(!fp8.has_canary_every_steps() || fp8.canary_every_steps() >= 0, path + "canary_every_steps",
                fp8.canary_every_steps(), "at least 0; 0 means never");
  check.Require(!fp8.has_canary_bound() || Positive(fp8.canary_bound()), path + "canary_bound", fp8.canary_bound(),
                "above 0 and finite");
}

void CheckPresets(const PrecisionPolicy& policy, Checker& check) {
  const auto names = [] { return absl::StrCat("; presets are ", absl::StrJoin(PresetNames(), ", ")); };
  if (!policy.preset().empty() && !IsPresetName(policy.preset())) {
    check.Fail("preset", absl::StrCat("is \"", Shortened(policy.preset(), kShownBytes), "\"", names()));
  }
  if (!policy.preset().empty() && policy.prefer_size() > 0) {
    check.Fail("prefer", "excludes precision.preset; give one of them");
  }
  for (int i = 0; i < policy.prefer_size(); ++i) {
    const std::string& name = policy.prefer(i);
    if (!IsPresetName(name) || name == kAuto) {
      check.Fail(absl::StrCat("prefer[", i, "]"), absl::StrCat("is \"", Shortened(name, kShownBytes), "\"", names()));
    }
  }
}

// Checks that floor <= initial loss scale <= cap. Each of the three is the policy's or, if unset, the preset's.
void CheckBounds(const PrecisionPolicy& policy, Checker& check) {
  const v1::DynamicLossScale& d = policy.loss_scale().dynamic();
  const Preset* preset = FindPreset(CandidatePresets(policy).front());
  if (!policy.loss_scale().has_dynamic() || preset == nullptr) {
    return;
  }
  const LossScaleConfig config = ResolveLossScale(policy, *preset);
  if (config.floor > config.cap) {
    check.Fail(d.has_floor() ? "loss_scale.dynamic.floor" : "loss_scale.dynamic.cap",
               absl::StrCat("the floor, ", config.floor, ", is above the cap, ", config.cap));
    return;
  }
  if (config.floor > config.initial) {
    check.Fail(d.has_floor() ? "loss_scale.dynamic.floor" : "loss_scale.dynamic.initial",
               absl::StrCat("the floor, ", config.floor, ", is above the initial scale, ", config.initial));
  }
  if (config.cap < config.initial) {
    check.Fail(d.has_cap() ? "loss_scale.dynamic.cap" : "loss_scale.dynamic.initial",
               absl::StrCat("the cap, ", config.cap, ", is below the initial scale, ", config.initial));
  }
}

std::vector<FieldViolation> Validate(const PrecisionPolicy& policy, Source source) {
  Checker check;
  CheckPresets(policy, check);
  CheckDtypes(policy, check);
  if (policy.loss_scale().has_dynamic()) {
    CheckDynamic(policy.loss_scale().dynamic(), source, check);
    CheckBounds(policy, check);
  } else if (policy.loss_scale().has_fixed()) {
    CheckScale("loss_scale.static.scale", policy.loss_scale().fixed().scale(), source, check);
  }
  check.Require(v1::LossScale::OptimizerSkip_IsValid(policy.loss_scale().optimizer_skip()), "loss_scale.optimizer_skip",
                policy.loss_scale().optimizer_skip(), "a known one");
  CheckRules(policy, source, check);
  CheckFp8(policy.fp8(), check);
  return check.Take();
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : AllPresets()) {
    names.emplace_back(preset.name);
  }
  names.emplace_back(kAuto);
  return names;
}

std::vector<FieldViolation> ValidatePolicy(const PrecisionPolicy& policy) { return Validate(policy, Source::kUser); }

std::vector<FieldViolation> ValidateAdmittedPolicy(const PrecisionPolicy& policy) {
  return Validate(policy, Source::kAdmittedJob);
}

}  // namespace ampd::precision
