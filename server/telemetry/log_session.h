#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"

namespace ampd::server {

// Sends an attempt's log to one reader: pages of the store from an offset on and, if the reader follows the log, new
// text until the attempt has ended. It buffers no text; a slow reader gets the text from the store later. Does not
// depend on gRPC. Single-threaded; owned by the caller of Next, and only one thread calls Next at a time.
class LogSession {
 public:
  struct Options {
    v1::TailLogsRequest request;
    std::function<absl::StatusOr<v1::Job>()> get_job;
    MetricStore* store = nullptr;
    MetricsHub* hub = nullptr;
    std::function<void()> on_ready;  // Called when there may be new text. Must hold only weak references.
  };
  struct Step {
    enum Kind { WAIT, MESSAGE, END };
    Kind kind = WAIT;
    v1::TailLogsResponse message;
    absl::Status status;  // Only for END: how the log ended.
  };

  explicit LogSession(Options options) : options_(std::move(options)) {}

  // Returns the next step. Blocks on the disk.
  Step Next();

 private:
  absl::Status Begin();
  absl::StatusOr<bool> AttemptHasEnded();
  absl::Status FindAttempt(const v1::Job& job);

  const Options options_;
  bool begun_ = false;
  std::shared_ptr<void> subscription_;
  int32_t attempt_ = 0;
  int64_t offset_ = 0;
};

}  // namespace ampd::server
