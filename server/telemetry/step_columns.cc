#include "server/telemetry/step_columns.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace ampd::server {
namespace {

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

// Appends a column that only some jobs have. Rows without it get zeros.
template <typename Column>
void AppendOptional(const Column& from, int begin, int end, int length_before, Column* to) {
  if (from.empty() && to->empty()) {
    return;
  }
  to->Resize(length_before, {});
  if (from.empty()) {
    to->Resize(length_before + end - begin, {});
  } else {
    AppendRange(from, begin, end, to);
  }
}

// GAN columns are empty in other jobs.
bool GanColumnsHaveLength(const v1::StepColumns& steps, int length) {
  const auto fits = [length](int size) { return size == 0 || size == length; };
  return fits(steps.generator_loss_size()) && fits(steps.generator_grad_norm_size()) &&
         fits(steps.generator_skipped_size()) && fits(steps.discriminator_skipped_size());
}

bool ColumnsHaveLength(const v1::StepColumns& steps, int length) {
  return steps.step_size() == length && steps.loss_size() == length && steps.grad_norm_size() == length &&
         steps.loss_scale_size() == length && steps.skipped_size() == length && steps.learning_rate_size() == length &&
         steps.samples_per_second_size() == length && steps.data_wait_seconds_size() == length &&
         steps.memory_allocated_bytes_size() == length && steps.memory_peak_bytes_size() == length &&
         steps.time_unix_micros_size() == length && GanColumnsHaveLength(steps, length);
}

// A position in each of a batch's lists.
struct BatchPlace {
  int step = 0;
  int eval = 0;
  int event = 0;
  int sample = 0;
};

uint64_t NextSequence(const v1::TelemetryBatch& batch, const BatchPlace& place) {
  uint64_t next = std::numeric_limits<uint64_t>::max();
  if (place.step < NumSteps(batch.steps())) {
    next = batch.steps().sequence(place.step);
  }
  if (place.eval < batch.evals_size()) {
    next = std::min<uint64_t>(next, batch.evals(place.eval).sequence());
  }
  if (place.event < batch.events_size()) {
    next = std::min<uint64_t>(next, batch.events(place.event).attempt_sequence());
  }
  if (place.sample < batch.samples_size()) {
    next = std::min<uint64_t>(next, batch.samples(place.sample).attempt_sequence());
  }
  return next;
}

// The first position whose items all come after `sequence`.
BatchPlace PlaceAfter(const v1::TelemetryBatch& batch, uint64_t sequence) {
  BatchPlace place;
  place.step = FirstStepAfter(batch.steps(), sequence);
  while (place.eval < batch.evals_size() && batch.evals(place.eval).sequence() <= sequence) {
    ++place.eval;
  }
  while (place.event < batch.events_size() && batch.events(place.event).attempt_sequence() <= sequence) {
    ++place.event;
  }
  while (place.sample < batch.samples_size() && batch.samples(place.sample).attempt_sequence() <= sequence) {
    ++place.sample;
  }
  return place;
}

}  // namespace

void FillMissingColumns(v1::StepColumns* steps) {
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
}

absl::Status CheckSteps(const v1::StepColumns& steps) {
  if (!ColumnsHaveLength(steps, NumSteps(steps))) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY", "step columns differ in length");
  }
  uint64_t last = 0;
  for (uint64_t sequence : steps.sequence()) {
    if (sequence <= last) {
      return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY", "step sequences do not grow");
    }
    last = sequence;
  }
  return absl::OkStatus();
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
  AppendOptional(from.generator_loss(), begin, end, length_before, to->mutable_generator_loss());
  AppendOptional(from.generator_grad_norm(), begin, end, length_before, to->mutable_generator_grad_norm());
  AppendOptional(from.generator_skipped(), begin, end, length_before, to->mutable_generator_skipped());
  AppendOptional(from.discriminator_skipped(), begin, end, length_before, to->mutable_discriminator_skipped());
}

int FirstStepAfter(const v1::StepColumns& steps, uint64_t sequence) {
  const auto& column = steps.sequence();
  return static_cast<int>(std::upper_bound(column.begin(), column.end(), sequence) - column.begin());
}

std::pair<uint64_t, uint64_t> SequenceRange(const v1::TelemetryBatch& batch) {
  std::pair<uint64_t, uint64_t> range;
  const auto add = [&range](uint64_t sequence) {
    range.first = range.first == 0 ? sequence : std::min(range.first, sequence);
    range.second = std::max(range.second, sequence);
  };
  std::for_each(batch.steps().sequence().begin(), batch.steps().sequence().end(), add);
  for (const v1::EvalPoint& eval : batch.evals()) {
    add(eval.sequence());
  }
  for (const v1::Event& event : batch.events()) {
    add(event.attempt_sequence());
  }
  for (const v1::Sample& sample : batch.samples()) {
    add(sample.attempt_sequence());
  }
  return range;
}

uint64_t LastPoint(const v1::TelemetryBatch& batch) {
  const uint64_t last = NumSteps(batch.steps()) == 0 ? 0 : *batch.steps().sequence().rbegin();
  return batch.evals_size() == 0 ? last : std::max<uint64_t>(last, batch.evals().rbegin()->sequence());
}

v1::TelemetryBatch ContiguousPart(const v1::TelemetryBatch& batch, uint64_t stored, uint64_t* last) {
  BatchPlace place = PlaceAfter(batch, stored);
  v1::TelemetryBatch part;
  const int first_step = place.step;
  *last = stored;
  while (NextSequence(batch, place) == *last + 1) {
    ++*last;
    if (place.step < NumSteps(batch.steps()) && batch.steps().sequence(place.step) == *last) {
      ++place.step;
    } else if (place.eval < batch.evals_size() && batch.evals(place.eval).sequence() == *last) {
      *part.add_evals() = batch.evals(place.eval++);
    } else if (place.event < batch.events_size() && batch.events(place.event).attempt_sequence() == *last) {
      *part.add_events() = batch.events(place.event++);
    } else {
      ++place.sample;
    }
  }
  if (place.step > first_step) {
    AppendSteps(batch.steps(), first_step, place.step, part.mutable_steps());
  }
  return part;
}

uint64_t FirstPoint(const v1::TelemetryBatch& points) { return NextSequence(points, BatchPlace()); }

}  // namespace ampd::server
