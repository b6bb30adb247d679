#include "tests/server/telemetry/history_fixtures.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "points/telemetry_batch.h"

namespace ampd::server {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ampd-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void AddStep(uint64_t sequence, int64_t step, v1::TelemetryBatch* batch) {
  v1::StepColumns* steps = batch->mutable_steps();
  steps->add_sequence(sequence);
  steps->add_step(step);
  steps->add_loss(1.0f / static_cast<float>(step + 1));
  steps->add_grad_norm(0.5f);
  steps->add_loss_scale(65536);
  steps->add_skipped(step % 7 == 0);
  steps->add_learning_rate(1e-3);
  steps->add_samples_per_second(1000);
  steps->add_data_wait_seconds(0.001f);
  steps->add_memory_allocated_bytes(1 << 20);
  steps->add_memory_peak_bytes(2 << 20);
  steps->add_time_unix_micros(1'700'000'000'000'000 + static_cast<int64_t>(sequence) * 1000);
}

v1::TelemetryBatch Steps(uint64_t first, uint64_t last, int64_t step_offset) {
  v1::TelemetryBatch batch;
  for (uint64_t sequence = first; sequence <= last; ++sequence) {
    AddStep(sequence, static_cast<int64_t>(sequence) + step_offset, &batch);
  }
  return batch;
}

void AddEval(uint64_t sequence, int64_t step, v1::TelemetryBatch* batch) {
  v1::EvalPoint* eval = batch->add_evals();
  eval->set_sequence(sequence);
  eval->set_step(step);
  eval->set_loss(0.25);
}

void AddEvent(uint64_t sequence, v1::Event::Kind kind, v1::TelemetryBatch* batch) {
  v1::Event* event = batch->add_events();
  event->set_attempt_sequence(sequence);
  event->set_kind(kind);
}

v1::Event ServerEvent(uint64_t sequence, v1::Event::Kind kind) {
  v1::Event event;
  event.set_sequence(sequence);
  event.set_kind(kind);
  return event;
}

std::string Show(const std::vector<PointSegment>& segments) {
  std::vector<std::string> shown;
  for (const PointSegment& segment : segments) {
    std::vector<std::string> runs;
    const auto& sequences = segment.batch.steps().sequence();
    for (int begin = 0, end = 0; begin < sequences.size(); begin = end) {
      for (end = begin + 1; end < sequences.size() && sequences[end] == sequences[end - 1] + 1;) {
        ++end;
      }
      runs.push_back(end - begin == 1 ? absl::StrCat(sequences[begin])
                                      : absl::StrCat(sequences[begin], "-", sequences[end - 1]));
    }
    for (const v1::EvalPoint& eval : segment.batch.evals()) {
      runs.push_back(absl::StrCat("e", eval.sequence()));
    }
    shown.push_back(
        absl::StrCat("a", segment.attempt, segment.superseded ? "!" : "", "[", absl::StrJoin(runs, ","), "]"));
  }
  return absl::StrJoin(shown, " ");
}

StoreOnDisk::StoreOnDisk() { Reopen(); }

void StoreOnDisk::Reopen() {
  store_.reset();
  MetricStore::Options options;
  options.path = path();
  options.clock = &clock_;
  options.group_delay = absl::ZeroDuration();
  options.max_log_bytes = max_log_bytes;
  options.max_queue_bytes = max_queue_bytes;
  options.retry_delay = absl::Milliseconds(1);
  options.on_stored = [this](const StoredHistory& stored) {
    if (on_stored) {
      on_stored(stored);
    }
  };
  absl::StatusOr<std::unique_ptr<MetricStore>> store = MetricStore::Open(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);
  store_->Start();
}

absl::StatusOr<uint64_t> StoreOnDisk::Append(int32_t attempt, v1::TelemetryBatch batch, int64_t from_step,
                                             const std::string& job) {
  absl::Notification done;
  absl::StatusOr<uint64_t> result = absl::UnknownError("not called");
  absl::Status accepted =
      store_->AppendTelemetry({job, attempt, from_step, std::move(batch)}, [&](absl::StatusOr<AttemptExtent> extent) {
        result = extent.ok() ? absl::StatusOr<uint64_t>(extent->stored_sequence) : extent.status();
        done.Notify();
      });
  if (!accepted.ok()) {
    return accepted;
  }
  done.WaitForNotification();
  return result;
}

absl::StatusOr<uint64_t> StoreOnDisk::Skip(int32_t attempt, uint64_t first, uint64_t last, int64_t from_step) {
  absl::Notification done;
  absl::StatusOr<uint64_t> result = absl::UnknownError("not called");
  absl::Status accepted = store_->SkipTelemetry(
      {"j", attempt, from_step, first, last, "test"}, [&](const absl::StatusOr<AttemptExtent>& extent) {
        result = extent.ok() ? absl::StatusOr<uint64_t>(extent->stored_sequence) : extent.status();
        done.Notify();
      });
  if (!accepted.ok()) {
    return accepted;
  }
  done.WaitForNotification();
  return result;
}

absl::StatusOr<int64_t> StoreOnDisk::AppendLog(int64_t offset, const std::string& text, int64_t dropped) {
  v1::LogChunk chunk;
  chunk.set_offset_bytes(offset);
  chunk.set_content(text);
  chunk.set_dropped_bytes(dropped);
  absl::StatusOr<int64_t> result = absl::UnknownError("not called");
  absl::Notification done;
  absl::Status accepted = store_->AppendLog("j", 1, chunk, [&](absl::StatusOr<AttemptExtent> extent) {
    result = extent.ok() ? absl::StatusOr<int64_t>(extent->log_end_bytes) : extent.status();
    done.Notify();
  });
  if (!accepted.ok()) {
    return accepted;
  }
  done.WaitForNotification();
  return result;
}

absl::Status StoreOnDisk::AppendEvents(std::vector<v1::Event> events) {
  absl::Status result;
  absl::Notification done;
  absl::Status accepted = store_->AppendServerEvents("j", std::move(events), [&](absl::Status status) {
    result = std::move(status);
    done.Notify();
  });
  if (!accepted.ok()) {
    return accepted;
  }
  done.WaitForNotification();
  return result;
}

}  // namespace ampd::server
