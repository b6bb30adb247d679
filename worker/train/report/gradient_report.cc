#include "worker/train/report/gradient_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "c10/core/ScalarType.h"
#include "precision/loss_scale.h"

namespace ampd::train {
namespace {

using amp::GradientSample;
using precision::LossScaleText;
using Module = v1::GradientSamples::Module;

std::string NameOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    default:
      return c10::toString(dtype);
  }
}

void Add(const GradientSample& from, GradientSample& to) {
  to.num_elements += from.num_elements;
  to.num_zero += from.num_zero;
  to.num_subnormal += from.num_subnormal;
  to.num_non_finite += from.num_non_finite;
  for (size_t i = 0; i < to.by_exponent.size(); ++i) {
    to.by_exponent[i] += from.by_exponent[i];
  }
}

Module ToProto(const GradientSample& sample) {
  Module module;
  module.set_module(sample.module);
  module.set_dtype(NameOf(sample.dtype));
  module.set_num_elements(sample.num_elements);
  module.set_num_zero(sample.num_zero);
  module.set_num_subnormal(sample.num_subnormal);
  module.set_num_non_finite(sample.num_non_finite);
  const auto occurs = [](int64_t count) { return count > 0; };
  const auto& all = sample.by_exponent;
  const auto first = std::find_if(all.begin(), all.end(), occurs);
  if (first != all.end()) {
    module.set_least_exponent(GradientSample::kLeastExponent + static_cast<int>(first - all.begin()));
    module.mutable_counts()->Assign(first, std::find_if(all.rbegin(), all.rend(), occurs).base());
  }
  return module;
}

v1::GradientSamples::Fp8 ToProto(const amp::Fp8Finding& finding, int64_t step) {
  v1::GradientSamples::Fp8 fp8;
  fp8.set_step(step);
  fp8.set_input_underflow(finding.underflow[0]);
  fp8.set_weight_underflow(finding.underflow[1]);
  fp8.set_gradient_underflow(finding.underflow[2]);
  fp8.set_input_saturation(finding.saturation[0]);
  fp8.set_weight_saturation(finding.saturation[1]);
  fp8.set_gradient_saturation(finding.saturation[2]);
  fp8.set_forward_error(finding.errors[0]);
  fp8.set_input_gradient_error(finding.errors[1]);
  fp8.set_weight_gradient_error(finding.errors[2]);
  fp8.set_demoted(finding.demoted);
  return fp8;
}

// Returns the module's first row in the report. If the report has no row of the module, because none of its parameters
// was sampled, adds one.
Module& RowOf(const std::string& module, v1::GradientSamples& report) {
  auto& rows = *report.mutable_modules();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Module& row) { return row.module() == module; });
  Module& row = found == rows.end() ? *rows.Add() : *found;
  row.set_module(module);
  return row;
}

// Whether the report should suggest a loss scale: if loss scaling is on, or a gradient is fp16. Gradients in wider
// formats need no loss scale.
bool MayBeScaled(const std::vector<GradientSample>& samples, const precision::LossScaleConfig& scaling) {
  return scaling.kind != precision::LossScaleConfig::Kind::kOff ||
         std::any_of(samples.begin(), samples.end(),
                     [](const GradientSample& sample) { return sample.dtype == at::kHalf; });
}

}  // namespace

v1::GradientSamples ReportGradients(const std::vector<GradientSample>& samples, double loss_scale,
                                    const precision::LossScaleConfig& scaling, const CanaryReport& canary,
                                    const std::optional<amp::ActivationFault>& fault) {
  std::vector<GradientSample> modules;
  std::map<std::pair<std::string, at::ScalarType>, size_t> places;
  for (const GradientSample& sample : samples) {
    const auto [place, is_first] = places.emplace(std::pair(sample.module, sample.dtype), modules.size());
    if (is_first) {
      modules.push_back(sample);
    } else {
      Add(sample, modules[place->second]);
    }
  }
  v1::GradientSamples report;
  for (const GradientSample& module : modules) {
    *report.add_modules() = ToProto(module);
  }
  for (const amp::Fp8Finding& layer : canary.layers) {
    *RowOf(layer.module, report).mutable_fp8() = ToProto(layer, canary.step);
  }
  if (fault.has_value()) {
    *report.mutable_activation_fault() = ToProto(*fault);
  }
  report.set_loss_scale(loss_scale);
  if (MayBeScaled(samples, scaling)) {
    report.set_suggested_scale(amp::SuggestScale(samples, loss_scale, precision::RangeOf(scaling)));
  }
  return report;
}

std::string Describe(const v1::GradientSamples& gradients) {
  int64_t num_elements = 0;
  int64_t num_subnormal = 0;
  int64_t num_non_finite = 0;
  for (const Module& module : gradients.modules()) {
    num_elements += module.num_elements();
    num_subnormal += module.num_subnormal();
    num_non_finite += module.num_non_finite();
  }
  const std::string bad = num_non_finite == 0 ? "" : absl::StrCat(", and ", num_non_finite, " elements are not finite");
  const std::string scale =
      gradients.suggested_scale() == 0
          ? "; the loss is not scaled"
          : absl::StrCat("; the loss scale is ", LossScaleText(gradients.loss_scale()),
                         ", and these gradients suggest a loss scale of ", LossScaleText(gradients.suggested_scale()));
  return absl::StrCat(
      num_subnormal, " of ", num_elements, " gradient elements (", gradients.modules_size(),
      gradients.modules_size() == 1 ? " module" : " modules", ") lost precision by underflow", bad, scale,
      gradients.has_activation_fault() ? absl::StrCat("; in the forward pass ", Describe(gradients.activation_fault()))
                                       : "");
}

v1::ActivationFault ToProto(const amp::ActivationFault& fault) {
  v1::ActivationFault proto;
  v1::ActivationFault::Kind kind = v1::ActivationFault::KIND_UNSPECIFIED;
  v1::ActivationFault::Kind_Parse(std::string(amp::NameOf(fault.kind)), &kind);
  proto.set_kind(kind);
  proto.set_module(fault.module);
  proto.set_op(fault.op);
  proto.set_value(fault.value);
  proto.set_dtype(fault.dtype);
  proto.set_share(fault.share);
  proto.set_zero_module(fault.zero_module);
  proto.set_zero_op(fault.zero_op);
  return proto;
}

namespace {

// The place of a fault, for messages: "aten.mul.Tensor of layers.0" or "the input images".
std::string PlaceOf(const std::string& op, const std::string& module, const std::string& value) {
  if (!op.starts_with("aten.") && !op.starts_with("ampd.")) {
    return absl::StrCat("the ", op, " ", value);
  }
  return absl::StrCat(op, " of ", module.empty() ? "the model" : module);
}

}  // namespace

std::string Describe(const v1::ActivationFault& fault) {
  const std::string place = PlaceOf(fault.op(), fault.module(), fault.value());
  switch (fault.kind()) {
    case v1::ActivationFault::DIVIDED_OUT:
      return absl::StrFormat(
          "%s overflows %s: %.1f%% of its numbers become infinite; %s divides by these infinite numbers and gets "
          "zeros; later products with these zeros are also 0; compute %s in fp32 by a rule in precision.op_rules, or "
          "train in bf16",
          place, fault.dtype(), 100 * fault.share(), PlaceOf(fault.zero_op(), fault.zero_module(), ""), fault.op());
    case v1::ActivationFault::VANISHED:
      return absl::StrFormat(
          "all results of %s are zero although its inputs are not, because the exact results are below the smallest "
          "number of %s; let this op compute in fp32 by a rule in precision.op_rules",
          place, fault.dtype());
    default:
      return absl::StrFormat(
          "numbers that are not finite appear first in %s (%.1f%% of its numbers, in %s); they make the loss not "
          "finite",
          place, 100 * fault.share(), fault.dtype());
  }
}

std::string WorstModules(const std::vector<ModuleLoss>& losses, double bound) {
  constexpr size_t kMostModules = 8;
  std::vector<ModuleLoss> worst = losses;
  std::stable_sort(worst.begin(), worst.end(),
                   [](const ModuleLoss& a, const ModuleLoss& b) { return a.share > b.share; });
  std::vector<std::string> texts;
  std::set<std::string> listed;
  for (const ModuleLoss& loss : worst) {
    if (loss.share > bound && texts.size() < kMostModules && listed.insert(loss.module).second) {
      texts.push_back(absl::StrFormat("%s %.3f", loss.module, loss.share));
    }
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace ampd::train
