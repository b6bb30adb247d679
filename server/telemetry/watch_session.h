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

// Sends a job to one watcher, message after message. Does not depend on gRPC.
//
//   1. a snapshot of the job
//   2. history from the store: from the resume token on, or from the start, or none
//   3. live items of the hub, in the same order as the store's; the cursor filters out those already sent
//   4. when the job is terminal: the rest of the store, then `final`
//
// The last outcome says how much telemetry there is. The final message waits until all of it is stored, but at most
// `final_wait`, because the telemetry of a lost worker never arrives. Every message has a token with which a watcher
// can resume after it. Single-threaded; owned by the caller of Next, and only one thread calls Next at a time.
class WatchSession {
 public:
  struct Options {
    std::string job;
    std::optional<HistoryCursor> resume_from;
    bool from_start = false;
    absl::Duration heartbeat = absl::Seconds(15);
    absl::Duration final_wait = absl::Seconds(30);
    std::function<absl::StatusOr<v1::Job>()> get_job;
    std::function<void(v1::Job*)> add_progress;  // Adds progress to records from the hub.
    // Returns the latest progress, to be sent with live metric points. May be null.
    std::function<std::optional<v1::Progress>()> progress;
    MetricStore* store = nullptr;
    MetricsHub* hub = nullptr;
    const Clock* clock = nullptr;
    std::function<void()> on_ready;  // See Subscription.
  };
  struct Step {
    enum Kind { WAIT, MESSAGE, END };
    Kind kind = WAIT;
    v1::WatchJobResponse message;
    absl::Status status;  // Only for END: how the watch ended.
  };

  explicit WatchSession(Options options) : options_(std::move(options)) {}

  // Returns the next step. Blocks on the disk while catching up. After WAIT, call it again after on_ready or when a
  // heartbeat may be due. Do not call it again after END.
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
  void AddProgress(v1::WatchJobResponse* message) const;
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
  uint64_t version_ = 0;  // Version of the last job record sent.
  uint64_t sequence_ = 0;
  int64_t num_dropped_ = 0;
};

}  // namespace ampd::server
