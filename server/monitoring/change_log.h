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

// One line in the log for each state change of a job, for each job or history that is deleted, and for each worker that
// comes, is lost, comes back or is drained; and what befalls the server itself. It is told what became durable, in
// commit order. Thread-safe.
class ChangeLog {
 public:
  // `event` is the job's CREATED or STATE_CHANGED; others have no line.
  void JobMoved(const v1::Job& job, const v1::Event& event);
  void JobDeleted(const std::string& job);
  void HistoryDeleted(const std::string& job);

  void ClockLeapt(absl::Duration leap);

  // What is known of a worker at the start: it has no line.
  void Know(const internal::WorkerRecord& worker);
  void WorkerChanged(const internal::WorkerRecord& worker);

 private:
  struct Known {
    bool lost = false;
    bool drained = false;
  };
  absl::Mutex mutex_;
  std::map<std::string, Known> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
