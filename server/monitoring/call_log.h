#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/monitoring/call_observer.h"

namespace ampd::server {

// Logs one line for each refused call, with method, code, reason and peer, and one for each worker that attaches. If
// several refusals have the same method, code and reason, only the first kPerWindow in each time window (kWindow) get a
// line; one more line then gives the number of the others. At the level debug, each finished call gets a line too. A
// client that disconnects does not count as a refusal. Passes all notifications on to another observer. Thread-safe.
class CallLog final : public CallObserver {
 public:
  static constexpr int kPerWindow = 5;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  CallLog(CallObserver* next, const Clock* clock) : next_(next), clock_(clock) {}

  void Finished(std::string_view method, absl::StatusCode code, absl::Duration time, bool is_stream,
                const TraceContext& trace) override;
  void StreamOpened(std::string_view method) override { next_->StreamOpened(method); }
  void StreamMessageSent(std::string_view method) override { next_->StreamMessageSent(method); }
  void Refused(std::string_view method, const absl::Status& status, const std::string& peer,
               const TraceContext& trace) override;
  void WorkerAttached(const std::string& worker, const std::string& peer, const TraceContext& trace) override;

  // Logs how many refusals were not logged in the windows that have ended. Call it every few seconds.
  void Flush();

 private:
  struct Window {
    absl::Duration start;  // Time since boot.
    int num_written = 0;
    int64_t num_left_out = 0;
    std::string method, code, reason;
  };
  // Removes the windows that have ended. Returns those that have refusals to log, so that the caller can log them
  // without holding the lock.
  std::map<std::string, Window> TakeOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CallObserver* const next_;
  const Clock* const clock_;
  absl::Mutex mutex_;
  std::map<std::string, Window> windows_ ABSL_GUARDED_BY(mutex_);  // Key: method, code and reason.
};

}  // namespace ampd::server
