#include "worker/train/report/step_reports.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "precision/loss_scale.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

using precision::LossScaleConfig;
using precision::LossScaleText;
using v1::Event;

// If a larger share of the values underflowed, this is reported. Micikevicius et al. (2018) saw about 5% of a healthy
// model's values lost without harm.
constexpr double kMaxUnderflowShare = 0.1;

constexpr const char* kFp8Operands[] = {"input", "weight", "gradient"};

}  // namespace

void StepReports::Restore(const Reported& reported) {
  const bool uneven = reported_.uneven || reported.uneven;
  reported_ = reported;
  reported_.uneven = uneven;
  activation_fault_.reset();
  last_loss_was_finite_ = true;
}

absl::Status StepReports::ReportGradients(int64_t step, const amp::StepResult& result,
                                          const precision::ResolvedPolicy& policy) {
  return telemetry_.Gradients(step, result, policy.loss_scale, canary_);
}

void StepReports::RecordCanary(int64_t step, const amp::StepResult& result) {
  if (!result.fp8.empty()) {
    canary_ = {step, result.fp8};
  }
}

absl::Status StepReports::ReportLossScaleSet(int64_t step, const v1::LossScaleOrder& order,
                                             const amp::LossScaler& scaler, const std::string& preset) {
  const std::string scale = LossScaleText(scaler.scale());
  std::map<std::string, std::string> attributes = {{"scale", scale},
                                                   {"growth_interval", absl::StrCat(scaler.state().growth_interval)}};
  if (!scaler.enabled()) {
    return telemetry_.Event(Event::LOSS_SCALE_SET, step,
                            absl::StrCat("the loss scale stays off: the job's precision, ", preset,
                                         ", does not scale the loss, so ampctl job scale has no effect"),
                            attributes);
  }
  std::vector<std::string> texts;
  if (order.has_scale()) {
    texts.push_back(absl::StrCat("the loss scale was set to ", scale));
    if (static_cast<float>(order.scale()) != scaler.scale()) {
      const std::string ordered = LossScaleText(order.scale());
      attributes.emplace("ordered_scale", ordered);
      absl::StrAppend(&texts.back(), ", the policy's ", order.scale() > scaler.scale() ? "cap" : "floor", ", because ",
                      ordered, " is beyond it");
    }
  }
  if (order.has_growth_interval()) {
    texts.push_back(absl::StrCat("the growth interval was set to ", order.growth_interval(), " steps"));
  }
  return telemetry_.Event(Event::LOSS_SCALE_SET, step, absl::StrJoin(texts, "; "), attributes);
}

// A failure to record a CUDA graph is only logged, not reported as an event: steps still compute the same bits, only
// more slowly.
void StepReports::LogGraphFailure(const std::string& failure) {
  if (failure == graph_failure_) {
    return;
  }
  graph_failure_ = failure;
  if (!failure.empty()) {
    LogLine(absl::StrCat("steps cannot be recorded in a CUDA graph, so they run op by op: ", failure));
  }
}

absl::Status StepReports::ReportLostPrecision(int64_t step, const amp::StepResult& result,
                                              const precision::ResolvedPolicy& policy) {
  AMPD_RETURN_IF_ERROR(ReportUnderflow(step, result, policy));
  AMPD_RETURN_IF_ERROR(ReportFp8Underflow(step, result));
  return ReportDemotions(step, result, policy);
}

absl::Status StepReports::ReportUnderflow(int64_t step, const amp::StepResult& result,
                                          const precision::ResolvedPolicy& policy) {
  if (result.samples.empty() || result.skipped) {
    return absl::OkStatus();
  }
  const auto worst = std::max_element(result.samples.begin(), result.samples.end(),
                                      [](const amp::GradientSample& a, const amp::GradientSample& b) {
                                        return a.UnderflowShare() < b.UnderflowShare();
                                      });
  const auto num_over =
      std::count_if(result.samples.begin(), result.samples.end(),
                    [](const amp::GradientSample& sample) { return sample.UnderflowShare() > kMaxUnderflowShare; });
  if (num_over == 0 || std::exchange(reported_.underflow, true)) {
    reported_.underflow = num_over > 0;
    return absl::OkStatus();
  }
  std::vector<ModuleLoss> losses;
  std::transform(result.samples.begin(), result.samples.end(), std::back_inserter(losses),
                 [](const amp::GradientSample& sample) {
                   return ModuleLoss{sample.module, sample.UnderflowShare()};
                 });
  const bool is_scaled = policy.loss_scale.kind != LossScaleConfig::Kind::kOff;
  const std::string share = absl::StrFormat("%.3f", worst->UnderflowShare());
  const std::string percent = absl::StrFormat("%.1f%%", 100 * worst->UnderflowShare());
  const std::string scale =
      LossScaleText(amp::SuggestScale(result.samples, result.loss_scale, precision::RangeOf(policy.loss_scale)));
  return telemetry_.Event(
      Event::UNDERFLOW, step,
      absl::StrCat(
          "gradients underflow in ", num_over, " of ", result.samples.size(), " parameters, most in ", worst->parameter,
          ", where ", percent, " of the elements lost precision; ",
          is_scaled
              ? "to make better use of fp16's range, set the loss scale with ampctl job scale to "
              : "to make better use of fp16's range, turn the loss scale on in precision.loss_scale and set it to ",
          scale),
      {{"parameter", worst->parameter},
       {"module", worst->module},
       {"modules", WorstModules(losses, kMaxUnderflowShare)},
       {"underflow_share", share},
       {"num_parameters", absl::StrCat(num_over)},
       {"scale", LossScaleText(result.loss_scale)},
       {"suggested_scale", scale},
       {"exponents", amp::DescribeExponents(*worst)}});
}

absl::Status StepReports::ReportActivations(int64_t step, const amp::StepResult& result, FindFault find_fault) {
  const bool is_finite = std::isfinite(result.loss);
  const bool was_finite = std::exchange(last_loss_was_finite_, is_finite);
  std::optional<amp::ActivationFault> found = result.activation_fault;
  if (!result.sampled_activations) {
    if (is_finite) {
      activation_fault_.reset();
      return absl::OkStatus();
    }
    // At the first of several such losses, the fault is needed for the end reason, even if it was reported before.
    if (!was_finite && reported_.not_finite) {
      return absl::OkStatus();
    }
    found = find_fault();
  }
  activation_fault_ = found;
  if (!found.has_value()) {
    reported_.activations = false;
    reported_.not_finite = false;
    return absl::OkStatus();
  }
  const bool is_not_finite = found->kind == amp::ActivationFault::Kind::kNotFinite;
  if (std::exchange(is_not_finite ? reported_.not_finite : reported_.activations, true)) {
    return absl::OkStatus();
  }
  const v1::ActivationFault fault = ToProto(*found);
  std::map<std::string, std::string> attributes = {{"kind", v1::ActivationFault::Kind_Name(fault.kind())},
                                                   {"module", fault.module()},
                                                   {"op", fault.op()},
                                                   {"value", fault.value()},
                                                   {"dtype", fault.dtype()},
                                                   {"share", absl::StrFormat("%.3f", fault.share())}};
  if (fault.kind() == v1::ActivationFault::DIVIDED_OUT) {
    attributes.insert({{"zero_module", fault.zero_module()}, {"zero_op", fault.zero_op()}});
  }
  return telemetry_.Event(Event::ACTIVATION_FAULT, step, Describe(fault), attributes);
}

absl::Status StepReports::ReportUneven(int64_t step, const std::string& why, const char* batches) {
  if (why.empty() || std::exchange(reported_.uneven, true)) {
    return absl::OkStatus();
  }
  return telemetry_.Event(
      Event::WARNING, step,
      absl::StrCat(
          batches, " may have different numbers of labels (", why,
          "); ampd does not know these numbers and so cannot weight each batch by its number of labels; the loss may "
          "then differ from the mean over all labels; to correct this, let the model also return the number of labels "
          "over which it averages its loss, and set model.exported.count_output to the index of that output"),
      {{"rule", "uneven_batches"}});
}

absl::Status StepReports::ReportFp8Underflow(int64_t step, const amp::StepResult& result) {
  if (result.fp8.empty()) {
    return absl::OkStatus();
  }
  const amp::Fp8Finding* worst = &result.fp8[0];
  size_t operand = 0;
  std::vector<ModuleLoss> losses;
  for (const amp::Fp8Finding& finding : result.fp8) {
    for (size_t i = 0; i < std::size(kFp8Operands); ++i) {
      losses.push_back({finding.module, finding.underflow[i]});
      if (finding.underflow[i] > worst->underflow[operand]) {
        worst = &finding;
        operand = i;
      }
    }
  }
  const bool underflows = worst->underflow[operand] > kMaxUnderflowShare;
  if (!underflows || std::exchange(reported_.fp8_underflow, true)) {
    reported_.fp8_underflow = underflows;
    return absl::OkStatus();
  }
  const std::string share = absl::StrFormat("%.3f", worst->underflow[operand]);
  return telemetry_.Event(
      Event::UNDERFLOW, step,
      absl::StrCat("numbers underflow in FP8, most in the ", kFp8Operands[operand], " of ", worst->module, ": ",
                   absl::StrFormat("%.1f%%", 100 * worst->underflow[operand]), " of its numbers became zero"),
      {{"module", worst->module},
       {"modules", WorstModules(losses, kMaxUnderflowShare)},
       {"operand", kFp8Operands[operand]},
       {"underflow_share", share},
       {"saturation_share", absl::StrFormat("%.3f", worst->saturation[operand])}});
}

absl::Status StepReports::ReportDemotions(int64_t step, const amp::StepResult& result,
                                          const precision::ResolvedPolicy& policy) {
  for (const amp::Fp8Finding& finding : result.fp8) {
    if (!finding.demoted) {
      continue;
    }
    const auto percent = [](double share) { return absl::StrFormat("%.1f%%", 100 * share); };
    const std::string format(graph::DtypeName(policy.formats.compute));
    AMPD_RETURN_IF_ERROR(telemetry_.Event(
        Event::PRECISION_RAISED, step,
        absl::StrCat("the errors of the FP8 products of ", finding.module, " are ", percent(finding.errors[0]),
                     " (forward), ", percent(finding.errors[1]), " (input gradient) and ", percent(finding.errors[2]),
                     " (weight gradient), but at most ", percent(policy.fp8->canary_bound),
                     " is allowed; from now on, this layer is computed in ", format),
        {{"module", finding.module},
         {"precision", format},
         {"forward_error", absl::StrFormat("%.4f", finding.errors[0])},
         {"input_gradient_error", absl::StrFormat("%.4f", finding.errors[1])},
         {"weight_gradient_error", absl::StrFormat("%.4f", finding.errors[2])},
         {"input_underflow", absl::StrFormat("%.4f", finding.underflow[0])},
         {"gradient_underflow", absl::StrFormat("%.4f", finding.underflow[2])},
         {"gradient_saturation", absl::StrFormat("%.4f", finding.saturation[2])}}));
  }
  return absl::OkStatus();
}

}  // namespace ampd::train
