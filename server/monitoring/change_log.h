#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"

namespace ampd::server {

// Logs one line for each state change of a job, for each deleted job or history, for each worker that registers, is
// lost, returns or is drained, and for clock leaps. Its functions are called in commit order, after the changes are
// durable. Thread-safe.
class ChangeLog {
 public:
  // Logs `event` if its kind is CREATED or STATE_CHANGED. The lines contain the trace of the job. The line for a job
  // that was just queued also contains the parent of the job's span.
  void JobMoved(const internal::JobRecord& record, const v1::Event& event);
  // `traceparent`: Job.traceparent.
  void JobDeleted(const std::string& job, const std::string& traceparent);
  void HistoryDeleted(const std::string& job, const std::string& traceparent);

  void ClockLeapt(absl::Duration leap);

  // Stores the state of a worker at the start of the server. Logs nothing.
  void Know(const internal::WorkerRecord& worker);
  void WorkerChanged(const internal::WorkerRecord& worker);
  // Drops the stored state of the worker. Logs nothing: if the worker comes back, it registers, which is logged.
  void WorkerRemoved(const std::string& worker);

 private:
  struct Known {
    bool lost = false;
    bool drained = false;
  };
  absl::Mutex mutex_;
  std::map<std::string, Known> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
