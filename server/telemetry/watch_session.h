#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "base/clock.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"

namespace ampd::server {

// What one watcher of a job gets, message after message, without a word of gRPC.
//
//   1. snapshot of the job
//   2. history from the store: from the resume token on, or from the start, or nothing
//   3. live items of the hub, in the same order as the store's, filtered by the cursor, so that none comes twice
//   4. when the job is terminal: the rest of the store once more, then `final`
//
// The final message waits until the telemetry that the last outcome announced is stored, at most `final_wait`: a lost
// worker's never comes. Every message carries the token to resume after it. Single-threaded: owner is whoever calls
// Next, one at a time.
class WatchSession {
 public:
  struct Options {
    std::string job;
    std::optional<HistoryCursor> resume_from;
    bool from_start = false;
    absl::Duration heartbeat = absl::Seconds(15);
    absl::Duration final_wait = absl::Seconds(30);
    std::function<absl::StatusOr<v1::Job>()> get_job;
    std::function<void(v1::Job*)> add_progress;  // to records that the hub published, which have none
    MetricStore* store = nullptr;
    MetricsHub* hub = nullptr;
    const Clock* clock = nullptr;
    std::function<void()> on_ready;  // see Subscription
  };
  struct Step {
    enum Kind { WAIT, MESSAGE, END };
    Kind kind = WAIT;
    v1::WatchJobResponse message;
    absl::Status status;  // of the END
  };

  explicit WatchSession(Options options) : options_(std::move(options)) {}

  // What to do now. Blocks on the disk while it catches up. WAIT: call again after on_ready, or when a heartbeat may be
  // due. Not called again after END.
  Step Next();

 private:
  enum class Phase { START, CATCHING_UP, LIVE, LAST_CATCH_UP, FINISHED };

  Step Begin();
  Step NextOfHistory();
  Step NextLive();
  Step Finish();
  absl::Status CheckToken(const HistoryCursor& token);
  absl::Status ReadPage();
  absl::StatusOr<bool> TelemetryIsComplete();
  Step ForItem(const HistoryItem& item);
  Step ForJob(const v1::Job& job);
  void AddProgress(v1::Job* job) const;
  Step Message(v1::WatchJobResponse message);
  Step WaitOrBeat();
  bool HasSeen(const HistoryItem& item) const;
  static Step End(absl::Status status);

  const Options options_;
  Phase phase_ = Phase::START;
  std::shared_ptr<Subscription> subscription_;
  HistoryCursor cursor_;
  std::deque<HistoryItem> page_;
  bool page_is_last_ = false;
  std::optional<v1::Job> terminal_;
  absl::Duration terminal_since_;
  absl::Duration last_message_;
  uint64_t version_ = 0;  // of the last job record told
  uint64_t sequence_ = 0;
  int64_t num_dropped_ = 0;
};

}  // namespace ampd::server
