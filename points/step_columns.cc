#include "points/step_columns.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"

namespace ampd::points {
namespace {

// The names of a GAN's two phases, one for each of its losses.
constexpr char kDiscriminator[] = "discriminator";
constexpr char kGenerator[] = "generator";

absl::Status Malformed(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY", message);
}

template <typename Column>
void AppendRange(const Column& from, int begin, int end, Column* to) {
  to->Reserve(to->size() + end - begin);
  std::copy(from.begin() + begin, from.begin() + end, google::protobuf::RepeatedFieldBackInserter(to));
}

template <typename Column>
void FillIfEmpty(int length, Column* column) {
  if (column->empty()) {
    column->Resize(length, {});
  }
}

// Whether an optional column is empty or has `length` entries.
bool IsEmptyOr(int length, const google::protobuf::RepeatedField<float>& column) {
  return column.empty() || column.size() == length;
}

// Appends the rows [begin, end) of the optional column `from` to `to`, a column of steps that had `length_before` rows
// so far. If only one of the two columns has numbers, the rows of the other get NaN.
void AppendOptional(const google::protobuf::RepeatedField<float>& from, int begin, int end, int length_before,
                    google::protobuf::RepeatedField<float>* to) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  if (from.empty() && to->empty()) {
    return;
  }
  to->Resize(length_before, kNone);
  if (from.empty()) {
    to->Resize(length_before + end - begin, kNone);
  } else {
    AppendRange(from, begin, end, to);
  }
}

void Resize(int length, v1::PhaseColumns* phase) {
  phase->mutable_loss()->Resize(length, 0);
  phase->mutable_grad_norm()->Resize(length, 0);
  phase->mutable_skipped()->Resize(length, false);
}

void AppendRows(const v1::PhaseColumns& from, int begin, int end, v1::PhaseColumns* to) {
  AppendRange(from.loss(), begin, end, to->mutable_loss());
  AppendRange(from.grad_norm(), begin, end, to->mutable_grad_norm());
  AppendRange(from.skipped(), begin, end, to->mutable_skipped());
}

const v1::PhaseColumns* FindPhase(const v1::StepColumns& steps, const std::string& name) {
  const auto found = std::find_if(steps.phases().begin(), steps.phases().end(),
                                  [&](const v1::PhaseColumns& phase) { return phase.name() == name; });
  return found == steps.phases().end() ? nullptr : &*found;
}

// Adds to `to` every phase that only `from` has. The added phase gets zeros for the `length_before` rows that `to`
// already has.
void AddMissingPhases(const v1::StepColumns& from, int length_before, v1::StepColumns* to) {
  for (const v1::PhaseColumns& phase : from.phases()) {
    if (FindPhase(*to, phase.name()) == nullptr) {
      v1::PhaseColumns& added = *to->add_phases();
      added.set_name(phase.name());
      Resize(length_before, &added);
    }
  }
}

void AppendPhases(const v1::StepColumns& from, int begin, int end, int length_before, v1::StepColumns* to) {
  AddMissingPhases(from, length_before, to);
  for (v1::PhaseColumns& phase : *to->mutable_phases()) {
    if (const v1::PhaseColumns* same = FindPhase(from, phase.name()); same != nullptr) {
      AppendRows(*same, begin, end, &phase);
    } else {
      Resize(length_before + end - begin, &phase);
    }
  }
}

// Converts the steps of a GAN, as older trainers sent them, to phases. In those steps the discriminator's numbers are
// in the general columns, such as `loss`, and the generator's are in columns of their own, such as `generator_loss`.
void ReplaceGeneratorColumns(v1::StepColumns* steps) {
  if (steps->generator_loss().empty()) {
    return;
  }
  const int length = NumSteps(*steps);
  v1::PhaseColumns& discriminator = *steps->add_phases();
  discriminator.set_name(kDiscriminator);
  *discriminator.mutable_loss() = steps->loss();
  *discriminator.mutable_grad_norm() = steps->grad_norm();
  discriminator.mutable_skipped()->Swap(steps->mutable_discriminator_skipped());
  v1::PhaseColumns& generator = *steps->add_phases();
  generator.set_name(kGenerator);
  generator.mutable_loss()->Swap(steps->mutable_generator_loss());
  generator.mutable_grad_norm()->Swap(steps->mutable_generator_grad_norm());
  generator.mutable_skipped()->Swap(steps->mutable_generator_skipped());
  for (v1::PhaseColumns* phase : {&discriminator, &generator}) {
    FillIfEmpty(length, phase->mutable_grad_norm());
    FillIfEmpty(length, phase->mutable_skipped());
  }
}

bool ColumnsHaveLength(const v1::StepColumns& steps, int length) {
  return steps.step_size() == length && steps.loss_size() == length && steps.grad_norm_size() == length &&
         steps.loss_scale_size() == length && steps.skipped_size() == length && steps.learning_rate_size() == length &&
         steps.samples_per_second_size() == length && steps.data_wait_seconds_size() == length &&
         steps.memory_allocated_bytes_size() == length && steps.memory_peak_bytes_size() == length &&
         steps.time_unix_micros_size() == length && IsEmptyOr(length, steps.flops_per_second()) &&
         IsEmptyOr(length, steps.mfu()) && IsEmptyOr(length, steps.power_watts()) &&
         IsEmptyOr(length, steps.device_utilization()) && IsEmptyOr(length, steps.memory_reserved_bytes()) &&
         IsEmptyOr(length, steps.allocation_retries());
}

absl::Status CheckPhases(const v1::StepColumns& steps) {
  if (steps.phases_size() > kMaxPhases) {
    return Malformed(absl::StrCat("steps have ", steps.phases_size(), " phases; at most ", kMaxPhases));
  }
  std::set<std::string> names;
  for (const v1::PhaseColumns& phase : steps.phases()) {
    const int length = NumSteps(steps);
    if (phase.loss_size() != length || phase.grad_norm_size() != length || phase.skipped_size() != length) {
      return Malformed("the columns of a phase differ in length from those of its steps");
    }
    if (phase.name().size() > kMaxPhaseNameBytes) {
      return Malformed(
          absl::StrCat("the name of a phase has ", phase.name().size(), " bytes; at most ", kMaxPhaseNameBytes));
    }
    if (phase.name().empty() || !names.insert(phase.name()).second) {
      return Malformed("a phase has no name, or two have the same");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void CompleteColumns(v1::StepColumns* steps) {
  const int length = NumSteps(*steps);
  FillIfEmpty(length, steps->mutable_step());
  FillIfEmpty(length, steps->mutable_loss());
  FillIfEmpty(length, steps->mutable_grad_norm());
  FillIfEmpty(length, steps->mutable_loss_scale());
  FillIfEmpty(length, steps->mutable_skipped());
  FillIfEmpty(length, steps->mutable_learning_rate());
  FillIfEmpty(length, steps->mutable_samples_per_second());
  FillIfEmpty(length, steps->mutable_data_wait_seconds());
  FillIfEmpty(length, steps->mutable_memory_allocated_bytes());
  FillIfEmpty(length, steps->mutable_memory_peak_bytes());
  FillIfEmpty(length, steps->mutable_time_unix_micros());
  ReplaceGeneratorColumns(steps);
}

std::vector<v1::PhaseLoss> PhaseLosses(const v1::FinalMetrics& metrics) {
  std::vector<v1::PhaseLoss> losses(metrics.phases().begin(), metrics.phases().end());
  if (losses.empty() && metrics.has_generator_loss()) {
    losses.resize(2);
    losses[0].set_name(kDiscriminator);
    losses[0].set_loss(metrics.train_loss());
    losses[1].set_name(kGenerator);
    losses[1].set_loss(metrics.generator_loss());
  }
  return losses;
}

absl::Status CheckSteps(const v1::StepColumns& steps) {
  if (!ColumnsHaveLength(steps, NumSteps(steps))) {
    return Malformed("step columns differ in length");
  }
  uint64_t last = 0;
  for (const uint64_t sequence : steps.sequence()) {
    if (sequence <= last) {
      return Malformed("step sequences do not grow");
    }
    last = sequence;
  }
  return CheckPhases(steps);
}

void AppendSteps(const v1::StepColumns& from, int begin, int end, v1::StepColumns* to) {
  const int length_before = NumSteps(*to);
  AppendRange(from.sequence(), begin, end, to->mutable_sequence());
  AppendRange(from.step(), begin, end, to->mutable_step());
  AppendRange(from.loss(), begin, end, to->mutable_loss());
  AppendRange(from.grad_norm(), begin, end, to->mutable_grad_norm());
  AppendRange(from.loss_scale(), begin, end, to->mutable_loss_scale());
  AppendRange(from.skipped(), begin, end, to->mutable_skipped());
  AppendRange(from.learning_rate(), begin, end, to->mutable_learning_rate());
  AppendRange(from.samples_per_second(), begin, end, to->mutable_samples_per_second());
  AppendRange(from.data_wait_seconds(), begin, end, to->mutable_data_wait_seconds());
  AppendRange(from.memory_allocated_bytes(), begin, end, to->mutable_memory_allocated_bytes());
  AppendRange(from.memory_peak_bytes(), begin, end, to->mutable_memory_peak_bytes());
  AppendRange(from.time_unix_micros(), begin, end, to->mutable_time_unix_micros());
  AppendOptional(from.flops_per_second(), begin, end, length_before, to->mutable_flops_per_second());
  AppendOptional(from.mfu(), begin, end, length_before, to->mutable_mfu());
  AppendOptional(from.power_watts(), begin, end, length_before, to->mutable_power_watts());
  AppendOptional(from.device_utilization(), begin, end, length_before, to->mutable_device_utilization());
  AppendOptional(from.memory_reserved_bytes(), begin, end, length_before, to->mutable_memory_reserved_bytes());
  AppendOptional(from.allocation_retries(), begin, end, length_before, to->mutable_allocation_retries());
  AppendPhases(from, begin, end, length_before, to);
}

bool HasUnknownColumns(const v1::StepColumns& steps) {
  const auto has_unknown = [](const google::protobuf::Message& message) {
    return !message.GetReflection()->GetUnknownFields(message).empty();
  };
  return has_unknown(steps) || std::any_of(steps.phases().begin(), steps.phases().end(), has_unknown);
}

int FirstStepAfter(const v1::StepColumns& steps, uint64_t sequence) {
  const auto& column = steps.sequence();
  return static_cast<int>(std::upper_bound(column.begin(), column.end(), sequence) - column.begin());
}

}  // namespace ampd::points
