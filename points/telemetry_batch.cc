#include "points/telemetry_batch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::points {
namespace {

// An index into each list of a batch: steps, evaluations, events and generated samples.
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

// For each list of the batch, the index of the first record whose sequence is greater than `sequence`.
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

// Returns INVALID_ARGUMENT unless each record's sequence is greater than that of the record before. `what` names the
// kind of record in the message.
template <typename Records, typename Sequence>
absl::Status CheckGrows(const Records& records, Sequence sequence, const char* what) {
  uint64_t last = 0;
  for (const auto& record : records) {
    if (sequence(record) <= last) {
      return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY",
                   absl::StrCat(what, " sequences do not grow"));
    }
    last = sequence(record);
  }
  return absl::OkStatus();
}

}  // namespace

void SetSequence(uint64_t sequence, v1::TelemetryBatch* record) {
  if (record->steps().step_size() > 0) {
    record->mutable_steps()->clear_sequence();
    record->mutable_steps()->add_sequence(sequence);
  }
  for (v1::EvalPoint& eval : *record->mutable_evals()) {
    eval.set_sequence(sequence);
  }
  for (v1::Event& event : *record->mutable_events()) {
    event.set_attempt_sequence(sequence);
  }
  for (v1::Sample& sample : *record->mutable_samples()) {
    sample.set_attempt_sequence(sequence);
  }
}

absl::Status CheckBatch(const v1::TelemetryBatch& batch) {
  AMPD_RETURN_IF_ERROR(CheckSteps(batch.steps()));
  AMPD_RETURN_IF_ERROR(CheckGrows(
      batch.evals(), [](const v1::EvalPoint& eval) { return eval.sequence(); }, "evaluation"));
  AMPD_RETURN_IF_ERROR(CheckGrows(
      batch.events(), [](const v1::Event& event) { return event.attempt_sequence(); }, "event"));
  return CheckGrows(
      batch.samples(), [](const v1::Sample& sample) { return sample.attempt_sequence(); }, "sample");
}

void AppendBatch(const v1::TelemetryBatch& from, v1::TelemetryBatch* to) {
  if (NumSteps(from.steps()) > 0) {
    AppendSteps(from.steps(), 0, NumSteps(from.steps()), to->mutable_steps());
  }
  to->mutable_evals()->MergeFrom(from.evals());
  to->mutable_events()->MergeFrom(from.events());
  to->mutable_samples()->MergeFrom(from.samples());
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
  if (place.step - first_step == NumSteps(batch.steps()) && place.step > 0) {
    *part.mutable_steps() = batch.steps();  // A copy also keeps columns that only a newer version knows.
  } else if (place.step > first_step) {
    AppendSteps(batch.steps(), first_step, place.step, part.mutable_steps());
  }
  return part;
}

uint64_t FirstPoint(const v1::TelemetryBatch& points) { return NextSequence(points, BatchPlace()); }

}  // namespace ampd::points
