#include "server/telemetry/metric_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"
#include "points/telemetry_batch.h"
#include "server/state/record_bounds.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxGroup = 512;
// The most metric points of one batch. Watchers get a batch in one message. Agents send batches of 1024 points.
constexpr int kMaxPoints = 16384;
constexpr int64_t kMaxGroupBytes = 4 << 20;
constexpr int64_t kOperationOverheadBytes = 512;

absl::Status CheckAppend(const v1::TelemetryBatch& batch) {
  if (points::NumPoints(batch) > kMaxPoints) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY",
                 absl::StrCat("a batch has ", points::NumPoints(batch), " points; at most ", kMaxPoints));
  }
  return points::CheckBatch(batch);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricStore>> MetricStore::Open(Options options) {
  AMPD_ASSIGN_OR_RETURN(std::unique_ptr<MetricWriter> writer, MetricWriter::Open(options.path, options.max_log_bytes));
  std::unique_ptr<MetricStore> store(new MetricStore(std::move(options), std::move(writer)));
  absl::MutexLock lock(&store->readers_mutex_);
  for (int i = 0; i < store->options_.num_readers; ++i) {
    AMPD_ASSIGN_OR_RETURN(std::unique_ptr<MetricReader> reader, MetricReader::Open(store->options_.path));
    store->readers_.push_back(std::move(reader));
  }
  return store;
}

void MetricStore::Start() {
  thread_ = std::thread([this] { WriteLoop(); });
}

MetricStore::~MetricStore() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

absl::Status MetricStore::AppendTelemetry(TelemetryAppend append, ExtentDone done) {
  points::CompleteColumns(append.batch.mutable_steps());
  AMPD_RETURN_IF_ERROR(CheckAppend(append.batch));
  for (v1::Event& event : *append.batch.mutable_events()) {
    BoundEvent(&event);
  }
  const auto num_bytes = static_cast<int64_t>(append.batch.ByteSizeLong());
  return EnqueueHistory(
      num_bytes,
      [this, append = std::move(append)](MetricWriter& writer) {
        return writer.AppendTelemetry(append, options_.clock->Now());
      },
      std::move(done));
}

absl::Status MetricStore::EnqueueHistory(int64_t num_bytes, WriteHistory write, ExtentDone done) {
  auto stored = std::make_shared<StoredHistory>();
  Operation operation;
  operation.num_bytes = num_bytes;
  operation.apply = [stored, write = std::move(write)](MetricWriter& writer) -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(*stored, write(writer));
    return absl::OkStatus();
  };
  operation.finish = [this, stored, done = std::move(done)](const absl::Status& status) {
    if (status.ok() && !stored->items.empty() && options_.on_stored) {
      options_.on_stored(*stored);
    }
    done(status.ok() ? absl::StatusOr<AttemptExtent>(stored->extent) : status);
  };
  return Enqueue(std::move(operation));
}

absl::Status MetricStore::AppendServerEvents(std::string job, std::vector<v1::Event> events, Done done) {
  auto stored = std::make_shared<StoredHistory>();
  Operation operation;
  operation.kind = events.empty() ? Operation::PLAIN : Operation::SERVER_EVENTS;
  for (const v1::Event& event : events) {
    operation.num_bytes += static_cast<int64_t>(event.ByteSizeLong());
  }
  operation.apply = [this, stored, job = std::move(job), events = std::move(events)](MetricWriter& writer) {
    absl::StatusOr<StoredHistory> appended = writer.AppendServerEvents(job, events, options_.clock->Now());
    if (!appended.ok()) {
      return appended.status();
    }
    *stored = *std::move(appended);
    return absl::OkStatus();
  };
  operation.finish = [this, stored, done = std::move(done)](const absl::Status& status) {
    if (status.ok() && !stored->items.empty() && options_.on_stored) {
      options_.on_stored(*stored);
    }
    done(status);
  };
  return Enqueue(std::move(operation));
}

absl::Status MetricStore::AppendLog(std::string job, int32_t attempt, v1::LogChunk chunk, ExtentDone done) {
  if (chunk.offset_bytes() < 0 || chunk.dropped_bytes() < 0) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY", "a log chunk has a negative offset");
  }
  auto end = std::make_shared<AttemptExtent>();
  Operation operation;
  operation.num_bytes = static_cast<int64_t>(chunk.content().size());
  operation.apply = [end, job, attempt, chunk = std::move(chunk)](MetricWriter& writer) -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(*end, writer.AppendLog(job, attempt, chunk));
    return absl::OkStatus();
  };
  operation.finish = [this, end, job, attempt, done = std::move(done)](const absl::Status& status) {
    if (status.ok() && options_.on_log_stored) {
      options_.on_log_stored(job, attempt);
    }
    done(status.ok() ? absl::StatusOr<AttemptExtent>(*end) : status);
  };
  return Enqueue(std::move(operation));
}

absl::Status MetricStore::SkipTelemetry(TelemetrySkip skip, ExtentDone done) {
  if (options_.on_skipped) {
    options_.on_skipped(skip);
  }
  return EnqueueHistory(
      0,
      [this, skip = std::move(skip)](MetricWriter& writer) {
        return writer.SkipTelemetry(skip, options_.clock->Now());
      },
      std::move(done));
}

absl::Status MetricStore::DeleteJob(std::string job, Done done) {
  Operation operation;
  operation.apply = [job = std::move(job)](MetricWriter& writer) { return writer.DeleteJob(job); };
  operation.finish = [done = std::move(done)](const absl::Status& status) { done(status); };
  return Enqueue(std::move(operation));
}

bool MetricStore::Flush() {
  absl::Notification flushed;
  absl::Status result;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) {
      return false;
    }
    Operation operation;
    operation.kind = Operation::FLUSH;
    operation.apply = [](MetricWriter&) { return absl::OkStatus(); };
    operation.finish = [&](const absl::Status& status) {
      result = status;
      flushed.Notify();
    };
    queue_.push_back(std::move(operation));
    flushing_ = true;
  }
  flushed.WaitForNotification();
  absl::MutexLock lock(&mutex_);
  return result.ok() && !events_missing_;
}

absl::Status MetricStore::Enqueue(Operation operation) {
  operation.num_bytes += kOperationOverheadBytes;
  absl::MutexLock lock(&mutex_);
  if (closed_) {
    return Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down");
  }
  const bool is_events = operation.kind == Operation::SERVER_EVENTS;
  if (is_events) {  // Waits: the replay of a long journal produces events faster than the disk takes them.
    mutex_.Await(absl::Condition(this, &MetricStore::EventsNeedNotWait));
  }
  const int64_t bound = is_events ? 2 * options_.max_queue_bytes : options_.max_queue_bytes;
  if (queue_bytes_ + operation.num_bytes > bound && !queue_.empty()) {
    events_missing_ = events_missing_ || is_events;
    return WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, "STORE_BUSY",
                                "the metric store has more to write than it can hold; send it again later"),
                          absl::Seconds(1));
  }
  queue_bytes_ += operation.num_bytes;
  queue_.push_back(std::move(operation));
  return absl::OkStatus();
}

bool MetricStore::GroupIsFullOrClosed() const {
  return closed_ || flushing_ || queue_.size() >= kMaxGroup || queue_bytes_ >= kMaxGroupBytes;
}

std::vector<MetricStore::Operation> MetricStore::TakeGroup() {
  absl::MutexLock lock(&mutex_);
  if (failing_) {
    AwaitFor(mutex_, absl::Condition(this, &MetricStore::MustNotWait), options_.retry_delay);
  }
  mutex_.Await(absl::Condition(this, &MetricStore::HasWorkOrClosed));
  AwaitFor(mutex_, absl::Condition(this, &MetricStore::GroupIsFullOrClosed), options_.group_delay);
  std::vector<Operation> group;
  for (int64_t num_bytes = 0; !queue_.empty() && group.size() < kMaxGroup && num_bytes < kMaxGroupBytes;) {
    num_bytes += queue_.front().num_bytes;
    group.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  flushing_ = flushing_ && !queue_.empty();
  return group;
}

void MetricStore::WriteLoop() {
  for (std::vector<Operation> group = TakeGroup(); !group.empty(); group = TakeGroup()) {
    const absl::Duration start = options_.clock->SinceBoot();
    const absl::Status committed = WriteGroup(&group);
    {
      absl::MutexLock lock(&mutex_);
      for (const Operation& operation : group) {
        queue_bytes_ -= operation.num_bytes;
      }
      failing_ = !committed.ok();
    }
    if (!committed.ok()) {
      AfterFailure(&group);
    }
    if (options_.on_group_written) {
      options_.on_group_written(options_.clock->SinceBoot() - start, committed.ok());
    }
    for (const Operation& operation : group) {
      operation.finish(committed.ok() ? operation.result : committed);
    }
  }
}

// Called when a transaction failed. Events of the server return to the head of the queue in their order, unless the
// store is closing. All other operations of the group fail, and so does every queued Flush.
void MetricStore::AfterFailure(std::vector<Operation>* group) {
  std::deque<Operation> queue;
  std::vector<Operation> answered;
  absl::MutexLock lock(&mutex_);
  const auto sort = [&](Operation& operation, bool of_group) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool again =
        of_group ? operation.kind == Operation::SERVER_EVENTS && !closed_ : operation.kind != Operation::FLUSH;
    queue_bytes_ += again && of_group ? operation.num_bytes : 0;
    again ? queue.push_back(std::move(operation)) : answered.push_back(std::move(operation));
  };
  for (Operation& operation : *group) {
    sort(operation, true);
  }
  for (Operation& operation : queue_) {
    sort(operation, false);
  }
  queue_ = std::move(queue);
  *group = std::move(answered);
  flushing_ = false;
}

// Writes the group in one transaction. A failed operation does not affect the others.
absl::Status MetricStore::WriteGroup(std::vector<Operation>* group) {
  AMPD_RETURN_IF_ERROR(writer_->Begin());
  for (Operation& operation : *group) {
    absl::Status saved = writer_->Save();
    operation.result = saved.ok() ? operation.apply(*writer_) : saved;
    absl::Status kept = operation.result.ok() ? writer_->KeepSaved() : writer_->UndoSaved();
    if (!kept.ok()) {
      writer_->Rollback();
      return kept;
    }
  }
  absl::Status committed = writer_->Commit();
  if (!committed.ok()) {
    writer_->Rollback();
  }
  return committed;
}

MetricStore::ReaderLease::ReaderLease(MetricStore* from) : store(from), start(from->options_.clock->SinceBoot()) {
  absl::MutexLock lock(&store->readers_mutex_);
  store->readers_mutex_.Await(absl::Condition(store, &MetricStore::HasReader));
  reader = std::move(store->readers_.back());
  store->readers_.pop_back();
}

MetricStore::ReaderLease::~ReaderLease() {
  {
    absl::MutexLock lock(&store->readers_mutex_);
    store->readers_.push_back(std::move(reader));
  }
  if (store->options_.on_read) {
    store->options_.on_read(store->options_.clock->SinceBoot() - start);
  }
}

}  // namespace ampd::server
