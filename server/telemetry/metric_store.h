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

// Keeps what jobs report: points, events and log text, in a SQLite file of its own. It is not the state of the cluster,
// which is the ledger's, but it is as durable: whatever was answered for survives a crash.
//
// Writes are queued and done by one thread, many to a transaction. An append is answered after it is on disk, and what
// was new in it is passed to `on_stored` right before that, in the order of the disk: who publishes from `on_stored`
// never shows what a crash could take back. The same telemetry may be appended again and again and is stored once, by
// (job, attempt, sequence).
//
// The queue is bounded in bytes; when it is full, appends are refused with RESOURCE_EXHAUSTED, nothing is kept of them
// and the sender sends again. Thread-safe.
class MetricStore {
 public:
  struct Options {
    std::string path;
    const Clock* clock = nullptr;
    // How long the first append of a group waits for others to share its flush.
    absl::Duration group_delay = absl::Milliseconds(20);
    int64_t max_queue_bytes = 64 << 20;
    absl::Duration retry_delay = absl::Seconds(1);  // between tries while the disk takes nothing
    int64_t max_log_bytes = 8 << 20;                // kept of one attempt's log; the oldest text goes first
    int num_readers = 2;
    // Called on the store's thread; must be quick.
    std::function<void(const StoredHistory&)> on_stored;
    std::function<void(const std::string& job, int32_t attempt)> on_log_stored;
    // After each transaction.
    std::function<void(absl::Duration time, bool ok)> on_group_written;
    std::function<void(const TelemetrySkip&)> on_skipped;
    // After each Read, on its thread: how long it took, its wait for a reader included. Quick.
    std::function<void(absl::Duration time)> on_read;
  };
  // What of the attempt is durable after the append.
  using ExtentDone = std::function<void(absl::StatusOr<AttemptExtent>)>;
  using Done = std::function<void(absl::Status)>;

  // FAILED_PRECONDITION with reason NEWER_SCHEMA when a newer server wrote the file.
  static absl::StatusOr<std::unique_ptr<MetricStore>> Open(Options options);
  // Writes what is queued, then ends.
  ~MetricStore();

  void Start();

  // `done` is called on the store's thread, exactly once, if and only if the call returns OK. Of samples the sequences
  // count, and nothing is kept: their content is the artifact store's.
  absl::Status AppendTelemetry(TelemetryAppend append, ExtentDone done);
  // `sequence` of each event is the server's own for the job; the stored ones get their place in the job's history.
  // Blocks while the queue is full and the disk works.
  // Nobody would send them again, so they wait, in their order, while the disk takes nothing; the ledger keeps what
  // they can be made from until Flush says that they are durable. When they alone have filled twice the queue,
  // RESOURCE_EXHAUSTED: the next server makes them again, and Flush tells so until then.
  absl::Status AppendServerEvents(std::string job, std::vector<v1::Event> events, Done done);
  absl::Status AppendLog(std::string job, int32_t attempt, v1::LogChunk chunk, ExtentDone done);
  // Telemetry of the given sequences was refused as malformed: an event tells `why` in its place, and what comes after
  // it follows without a gap. INVALID_ARGUMENT in `done` when the range is larger than that of a batch can be.
  absl::Status SkipTelemetry(TelemetrySkip skip, ExtentDone done);
  // The attempt went back to `after_step` when its telemetry had reached `sequence`.
  absl::Status MarkRollback(std::string job, int32_t attempt, uint64_t sequence, int64_t after_step, Done done);
  absl::Status DeleteJob(std::string job, Done done);
  // Returns when all that was appended before was tried. True when every event of the server is durable.
  bool Flush();

  // Runs `read` with a reader of the pool; waits for one when all are busy. Blocks on the disk.
  template <typename Function>
  std::invoke_result_t<Function, MetricReader&> Read(Function&& read) {
    ReaderLease lease(this);
    return std::forward<Function>(read)(*lease.reader);
  }

  // For /metrics.
  struct Counters {
    int64_t num_groups = 0;
    int64_t num_appends = 0;
    int64_t num_errors = 0;
    int64_t num_refused = 0;  // batches skipped
    int64_t queue_bytes = 0;
    double write_seconds = 0;
  };
  Counters counters() const;

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
  // What `write` stored goes to on_stored, and its extent to `done`.
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
  std::unique_ptr<MetricWriter> writer_;  // of the thread only, once started
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::deque<Operation> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queue_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool flushing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;         // since the last group
  bool events_missing_ ABSL_GUARDED_BY(mutex_) = false;  // some were given up
  Counters counters_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex readers_mutex_;
  std::vector<std::unique_ptr<MetricReader>> readers_ ABSL_GUARDED_BY(readers_mutex_);
};

}  // namespace ampd::server
