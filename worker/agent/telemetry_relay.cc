#include "worker/agent/telemetry_relay.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ampd::agent {
namespace {

using v1::EvalPoint;
using v1::Event;
using v1::Sample;
using v1::StepColumns;
using v1::TelemetryBatch;

int NumPoints(const TelemetryBatch& batch) {
  return batch.steps().sequence_size() + batch.evals_size() + batch.events_size() + batch.samples_size();
}

// Smallest and largest sequence; 0 and 0 for an empty batch.
std::pair<uint64_t, uint64_t> SequenceRange(const TelemetryBatch& batch) {
  std::pair<uint64_t, uint64_t> range;
  const auto add = [&range](uint64_t sequence) {
    range.first = range.first == 0 ? sequence : std::min(range.first, sequence);
    range.second = std::max(range.second, sequence);
  };
  std::for_each(batch.steps().sequence().begin(), batch.steps().sequence().end(), add);
  for (const EvalPoint& eval : batch.evals()) {
    add(eval.sequence());
  }
  for (const Event& event : batch.events()) {
    add(event.attempt_sequence());
  }
  for (const Sample& sample : batch.samples()) {
    add(sample.attempt_sequence());
  }
  return range;
}

// The length of each column.
std::vector<int> Lengths(const StepColumns& steps) {
  std::vector<int> lengths;
  const google::protobuf::Descriptor& type = *StepColumns::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    lengths.push_back(StepColumns::GetReflection()->FieldSize(steps, type.field(i)));
  }
  return lengths;
}

template <typename Items, typename Sequence>
bool Grows(const Items& items, Sequence sequence) {
  uint64_t last = 0;
  return std::all_of(items.begin(), items.end(),
                     [&](const auto& item) { return sequence(item) > std::exchange(last, sequence(item)); });
}

// Whether the server accepts the batch: sequences grow within each kind, and a column has a value for every step or no
// values at all. The server drops any other batch whole.
bool IsWellFormed(const TelemetryBatch& batch) {
  const std::vector<int> lengths = Lengths(batch.steps());
  return std::all_of(lengths.begin(), lengths.end(),
                     [&](int length) { return length == batch.steps().sequence_size() || length == 0; }) &&
         Grows(batch.steps().sequence(), [](uint64_t sequence) { return sequence; }) &&
         Grows(batch.evals(), [](const EvalPoint& eval) { return eval.sequence(); }) &&
         Grows(batch.events(), [](const Event& event) { return event.attempt_sequence(); }) &&
         Grows(batch.samples(), [](const Sample& sample) { return sample.attempt_sequence(); });
}

// Whether the rows of `b` can follow those of `a`: a column that only one of them has would get too short.
bool HaveSameColumns(const StepColumns& a, const StepColumns& b) {
  const std::vector<int> of_a = Lengths(a);
  const std::vector<int> of_b = Lengths(b);
  return a.sequence_size() == 0 || b.sequence_size() == 0 ||
         std::equal(of_a.begin(), of_a.end(), of_b.begin(), [](int x, int y) { return (x == 0) == (y == 0); });
}

}  // namespace

void TelemetryRelay::Add(TelemetryBatch batch) {
  const auto [first, last] = SequenceRange(batch);
  // A trainer repeats unacknowledged batches on a new connection.
  if (last <= received_) {
    return;
  }
  received_ = last;
  if (refused_) {
    return;
  }
  const size_t num_bytes = batch.ByteSizeLong();
  num_bytes_ += num_bytes;
  const bool well_formed = IsWellFormed(batch);
  Kept added = {std::move(batch), first, last, num_bytes, well_formed};
  if (!MergeIntoLast(added)) {
    batches_.push_back(std::move(added));
  }
}

// A batch that the server would drop is not merged, so that nothing else is dropped with it.
bool TelemetryRelay::MergeIntoLast(const Kept& added) {
  if (batches_.size() <= num_sent_) {
    return false;
  }
  Kept& kept = batches_.back();
  if (!kept.well_formed || !added.well_formed || added.first != kept.last + 1 ||
      NumPoints(kept.batch) + NumPoints(added.batch) > kMaxMergedPoints ||
      kept.num_bytes + added.num_bytes > kMaxMergedBytes || !HaveSameColumns(kept.batch.steps(), added.batch.steps())) {
    return false;
  }
  kept.batch.MergeFrom(added.batch);
  kept.last = added.last;
  kept.num_bytes += added.num_bytes;
  return true;
}

const TelemetryBatch* TelemetryRelay::Next() const {
  return num_sent_ < std::min(batches_.size(), kMaxUploads) ? &batches_[num_sent_].batch : nullptr;
}

void TelemetryRelay::Acknowledge(uint64_t sequence) {
  acknowledged_ = std::max(acknowledged_, sequence);
  while (!batches_.empty() && batches_.front().last <= acknowledged_) {
    num_bytes_ -= batches_.front().num_bytes;
    batches_.pop_front();
    num_sent_ -= num_sent_ > 0 ? 1 : 0;
  }
}

void TelemetryRelay::Refuse() {
  refused_ = true;
  batches_.clear();
  num_sent_ = 0;
  num_bytes_ = 0;
}

}  // namespace ampd::agent
