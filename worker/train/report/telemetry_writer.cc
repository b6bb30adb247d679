#include "worker/train/report/telemetry_writer.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "precision/loss_scale.h"
#include "worker/train/report/eval_point.h"
#include "worker/train/report/gradient_report.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

using precision::LossScaleText;

// How long a step waits for free space in the outbox. The outbox is full if the server accepts no telemetry for a long
// time.
constexpr absl::Duration kMaxWait = absl::Hours(1);

// Names the skipped work in messages: "the step", or "the generator step" if only some of its phases were
// skipped.
std::string SkippedWork(const amp::StepResult& result) {
  std::vector<std::string> names;
  for (const amp::PhaseResult& phase : result.phases) {
    if (phase.skipped) {
      names.push_back(phase.phase);
    }
  }
  return names.empty() || names.size() == result.phases.size()
             ? "the step"
             : absl::StrCat("the ", absl::StrJoin(names, ", "), " step");
}

std::string DescribeSkip(const amp::StepResult& result) {
  if (result.num_overflow_parameters == 0) {
    return absl::StrCat("the step was skipped: the loss scale, ", LossScaleText(result.loss_scale),
                        ", is so small that dividing the gradients by it would overflow");
  }
  const std::string rest =
      result.num_overflow_parameters == 1
          ? std::string()
          : absl::StrCat("; later in the backward pass, ", result.total_overflow_count - result.overflow_count,
                         " gradient elements of ", result.num_overflow_parameters - 1,
                         result.num_overflow_parameters == 2 ? " other parameter" : " other parameters",
                         " are not finite either");
  const std::string loss = std::isfinite(result.loss) ? "" : "; the loss is not finite either";
  return absl::StrCat(SkippedWork(result), " was skipped: ", result.overflow_count, " gradient elements of ",
                      result.overflow_parameter, " are not finite", rest, loss);
}

// Adds the numbers of each phase to the step's row. The row's other columns always have the numbers of the first phase,
// even if another phase had the overflow.
void AddPhases(const std::vector<amp::PhaseResult>& phases, v1::StepColumns& row) {
  row.set_loss(0, phases.front().loss);
  row.set_grad_norm(0, phases.front().grad_norm);
  row.set_learning_rate(0, phases.front().learning_rate);
  for (const amp::PhaseResult& phase : phases) {
    v1::PhaseColumns& columns = *row.add_phases();
    columns.set_name(phase.phase);
    columns.add_loss(phase.loss);
    columns.add_grad_norm(phase.grad_norm);
    columns.add_skipped(phase.skipped);
  }
}

// Adds the columns that not every device can provide. If a number is unknown, its column is left out.
void AddDeviceNumbers(const StepCosts& costs, v1::StepColumns& row) {
  if (costs.work.flops > 0 && costs.seconds > 0) {
    row.add_flops_per_second(static_cast<float>(costs.work.flops / costs.seconds));
  }
  if (costs.work.seconds_at_peak.has_value() && costs.seconds > 0) {
    row.add_mfu(static_cast<float>(*costs.work.seconds_at_peak / costs.seconds));
  }
  if (costs.memory.reserved_bytes > 0) {  // On a GPU.
    row.add_memory_reserved_bytes(static_cast<float>(costs.memory.reserved_bytes));
    row.add_allocation_retries(static_cast<float>(costs.memory.num_retries));
  }
  if (costs.power_watts.has_value()) {
    row.add_power_watts(static_cast<float>(*costs.power_watts));
  }
  if (costs.utilization.has_value()) {
    row.add_device_utilization(static_cast<float>(*costs.utilization));
  }
}

int64_t UnixMicros() { return absl::ToUnixMicros(absl::Now()); }

}  // namespace

absl::Status TelemetryWriter::Add(v1::TelemetryBatch record) {
  return outbox_.Add(std::move(record), SystemClock().SinceBoot() + kMaxWait);
}

absl::Status TelemetryWriter::Step(int64_t step, const amp::StepResult& result, double next_scale,
                                   const StepCosts& costs) {
  v1::TelemetryBatch record;
  v1::StepColumns& row = *record.mutable_steps();
  row.add_step(step);
  row.add_loss(result.loss);
  row.add_grad_norm(result.grad_norm);
  row.add_loss_scale(result.loss_scale);
  row.add_skipped(result.skipped);
  row.add_learning_rate(result.learning_rate);
  row.add_samples_per_second(static_cast<float>(static_cast<double>(costs.num_samples) / costs.seconds));
  row.add_data_wait_seconds(static_cast<float>(costs.data_wait_seconds));
  row.add_memory_allocated_bytes(costs.memory.allocated_bytes);
  row.add_memory_peak_bytes(costs.memory.peak_bytes);
  row.add_time_unix_micros(UnixMicros());
  AddDeviceNumbers(costs, row);
  if (result.phases.size() > 1) {
    AddPhases(result.phases, row);
  }
  AMPD_RETURN_IF_ERROR(Add(std::move(record)));
  return ScaleEvents(step, result, next_scale);
}

absl::Status TelemetryWriter::ScaleEvents(int64_t step, const amp::StepResult& result, double next_scale) {
  if (result.skipped) {
    AMPD_RETURN_IF_ERROR(Event(v1::Event::OVERFLOW, step, DescribeSkip(result),
                               {{"parameter", result.overflow_parameter},
                                {"module", result.overflow_module},
                                {"count", absl::StrCat(result.overflow_count)},
                                {"total_count", absl::StrCat(result.total_overflow_count)},
                                {"num_parameters", absl::StrCat(result.num_overflow_parameters)},
                                {"loss_is_finite", std::isfinite(result.loss) ? "true" : "false"},
                                {"scale", LossScaleText(result.loss_scale)}}));
  }
  const std::string scale = LossScaleText(next_scale);
  switch (result.scale_change) {
    case amp::ScaleChange::kNone:
      return absl::OkStatus();
    case amp::ScaleChange::kGrown:
      return Event(v1::Event::LOSS_SCALE_GROWN, step, absl::StrCat("the loss scale grew to ", scale),
                   {{"scale", scale}});
    case amp::ScaleChange::kBackedOff:
      return Event(v1::Event::LOSS_SCALE_BACKED_OFF, step, absl::StrCat("the loss scale fell to ", scale),
                   {{"scale", scale}});
    case amp::ScaleChange::kAtFloor:  // The monitor reports this change, once.
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status TelemetryWriter::Eval(v1::EvalPoint point) {
  LogLine(absl::StrFormat("step %d: evaluation over %d samples: loss %.4f%s", point.step(), point.num_samples(),
                          point.loss(), QualityText(point)));
  point.set_time_unix_micros(UnixMicros());
  v1::TelemetryBatch record;
  *record.add_evals() = std::move(point);
  return Add(std::move(record));
}

absl::Status TelemetryWriter::Sample(v1::Sample sample, double seconds) {
  LogLine(absl::StrFormat("step %d: generated %s (%d bytes) in %.2f s", sample.step(), sample.file_name(),
                          sample.content().size(), seconds));
  v1::TelemetryBatch record;
  *record.add_samples() = std::move(sample);
  return Add(std::move(record));
}

absl::Status TelemetryWriter::File(v1::Sample file) {
  LogLine(absl::StrFormat("step %d: wrote %s (%d bytes)", file.step(), file.file_name(), file.content().size()));
  v1::TelemetryBatch record;
  *record.add_samples() = std::move(file);
  return Add(std::move(record));
}

absl::Status TelemetryWriter::Event(v1::Event::Kind kind, int64_t step, const std::string& message,
                                    const std::map<std::string, std::string>& attributes) {
  v1::Event event;
  event.set_kind(kind);
  event.set_step(step);
  // The agent cannot read a message with a text that is not UTF-8. The texts may contain paths, which may be anything.
  event.set_message(ValidUtf8(message));
  for (const auto& [name, value] : attributes) {
    (*event.mutable_attributes())[name] = ValidUtf8(value);
  }
  return AddEvent(std::move(event));
}

absl::Status TelemetryWriter::Gradients(int64_t step, const amp::StepResult& result,
                                        const precision::LossScaleConfig& scaling, const CanaryReport& canary) {
  v1::Event event;
  event.set_kind(v1::Event::GRADIENTS_SAMPLED);
  event.set_step(step);
  *event.mutable_gradients() =
      ReportGradients(result.samples, result.loss_scale, scaling, canary, result.activation_fault);
  event.set_message(Describe(event.gradients()));
  return AddEvent(std::move(event));
}

absl::Status TelemetryWriter::AddEvent(v1::Event event) {
  LogLine(absl::StrCat("step ", event.step(), ": ", event.message()));
  event.set_attempt(attempt_);
  event.set_time_unix_micros(UnixMicros());
  v1::TelemetryBatch record;
  *record.add_events() = std::move(event);
  return Add(std::move(record));
}

}  // namespace ampd::train
