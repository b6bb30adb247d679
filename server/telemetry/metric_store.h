#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/clock.h"
#include "server/telemetry/history.h"
#include "server/telemetry/metric_reader.h"
#include "server/telemetry/metric_writer.h"

namespace ampd::server {

// Stores the telemetry of jobs (metric points, events and log text) in its own SQLite file. The file is as durable as
// the ledger's journal: whatever was acknowledged survives a crash.
//
// One thread does the queued writes, many in one transaction. An append is acknowledged after it is on disk. Just
// before the acknowledgement, its new items are passed to `on_stored`, in the order in which they were stored. So data
// published from `on_stored` can no longer be lost in a crash. The same telemetry may be appended repeatedly and is
// stored once, by (job, attempt, sequence).
//
// The queue is bounded in bytes. When it is full, an append is refused as a whole with RESOURCE_EXHAUSTED, and the
// sender retries. Thread-safe.
class MetricStore {
 public:
  struct Options {
    std::string path;
    const Clock* clock = nullptr;
    // How long the first append of a group waits for further appends, so that they share one disk flush.
    absl::Duration group_delay = absl::Milliseconds(20);
    int64_t max_queue_bytes = 64 << 20;
    absl::Duration retry_delay = absl::Seconds(1);  // Between retries while the disk accepts no writes.
    int64_t max_log_bytes = 8 << 20;                // Limit for one attempt's log. The oldest text is dropped first.
    int num_readers = 2;
    // `on_stored` and `on_log_stored` are called on the store's thread and must be quick.
    std::function<void(const StoredHistory&)> on_stored;
    std::function<void(const std::string& job, int32_t attempt)> on_log_stored;
    // Called after each transaction; `ok` is false if it failed.
    std::function<void(absl::Duration time, bool ok)> on_group_written;
    std::function<void(const TelemetrySkip&)> on_skipped;
    // Called after each Read on the reading thread, with the duration including the wait for a free reader. Must be
    // quick.
    std::function<void(absl::Duration time)> on_read;
  };
  // Called with the extent of the attempt that is durable after the append.
  using ExtentDone = std::function<void(absl::StatusOr<AttemptExtent>)>;
  using Done = std::function<void(absl::Status)>;

  // FAILED_PRECONDITION with reason NEWER_SCHEMA if a newer server wrote the file.
  static absl::StatusOr<std::unique_ptr<MetricStore>> Open(Options options);
  // Writes the queued data before it returns.
  ~MetricStore();

  void Start();

  // Queues telemetry. If the call returns OK, `done` is called exactly once, on the store's thread; otherwise it is
  // never called. Of generated samples, only the sequence numbers are recorded; the artifact store has their content.
  absl::Status AppendTelemetry(TelemetryAppend append, ExtentDone done);
  // Appends events of the server. The `sequence` of each event is its number among the server's events for the job;
  // when the event is stored, its position in the job's history replaces this number. Blocks while the queue is full
  // and the disk accepts writes.
  //
  // Nobody else can send these events again. Therefore, while the disk accepts no writes, the events stay queued in
  // order, and the ledger keeps the updates that produced them until Flush says that they are durable.
  // RESOURCE_EXHAUSTED if the queue has reached twice its bound. From then on Flush returns false until the server is
  // restarted; the next server process produces the events again.
  absl::Status AppendServerEvents(std::string job, std::vector<v1::Event> events, Done done);
  absl::Status AppendLog(std::string job, int32_t attempt, v1::LogChunk chunk, ExtentDone done);
  // Records that telemetry with the given sequences was refused as malformed. The store adds an event with the reason
  // `why` in place of the telemetry, so later telemetry follows without a gap. `done` gets INVALID_ARGUMENT if the
  // range is larger than a batch can be.
  absl::Status SkipTelemetry(TelemetrySkip skip, ExtentDone done);
  absl::Status DeleteJob(std::string job, Done done);
  // Waits until the writer has tried to store everything that was appended before this call. Returns true if all events
  // of the server are durable.
  bool Flush();

  // Runs `read` with a reader from the pool; waits for a reader if all are busy. Blocks on the disk.
  template <typename Function>
  std::invoke_result_t<Function, MetricReader&> Read(Function&& read) {
    ReaderLease lease(this);
    return std::forward<Function>(read)(*lease.reader);
  }

 private:
  struct Operation {
    enum Kind { PLAIN, SERVER_EVENTS, FLUSH } kind = PLAIN;
    int64_t num_bytes = 0;
    std::function<absl::Status(MetricWriter&)> apply;
    std::function<void(const absl::Status&)> finish;
    absl::Status result;
  };
  struct ReaderLease {
    explicit ReaderLease(MetricStore* from);
    ~ReaderLease();
    MetricStore* store;
    const absl::Duration start;
    std::unique_ptr<MetricReader> reader;
  };

  MetricStore(Options options, std::unique_ptr<MetricWriter> writer)
      : options_(std::move(options)), writer_(std::move(writer)) {}
  using WriteHistory = std::function<absl::StatusOr<StoredHistory>(MetricWriter&)>;

  absl::Status Enqueue(Operation operation);
  // Queues `write`. When it is durable, passes its result to on_stored, and the attempt's extent to `done`.
  absl::Status EnqueueHistory(int64_t num_bytes, WriteHistory write, ExtentDone done);
  void WriteLoop();
  std::vector<Operation> TakeGroup();
  absl::Status WriteGroup(std::vector<Operation>* group);
  void AfterFailure(std::vector<Operation>* group);
  bool HasWorkOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !queue_.empty(); }
  bool GroupIsFullOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EventsNeedNotWait() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || failing_ || queue_bytes_ <= options_.max_queue_bytes;
  }
  bool MustNotWait() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || flushing_; }
  bool HasReader() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(readers_mutex_) { return !readers_.empty(); }

  const Options options_;
  std::unique_ptr<MetricWriter> writer_;  // Used only by the thread, once that is started.
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::deque<Operation> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queue_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool flushing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;         // Whether the last group failed.
  bool events_missing_ ABSL_GUARDED_BY(mutex_) = false;  // Whether some of the server's events were dropped.

  absl::Mutex readers_mutex_;
  std::vector<std::unique_ptr<MetricReader>> readers_ ABSL_GUARDED_BY(readers_mutex_);
};

}  // namespace ampd::server
