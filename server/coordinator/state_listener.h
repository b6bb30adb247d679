#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// Receives the changes of the state after they are on disk and visible to readers. Calls about changes come on the
// ledger's thread, in commit order, before the callers that asked for the changes are answered. After a restart
// OnEvents may report events again; (job, sequence) identifies an event. Implementations must be quick and may call
// back into the coordinator only from another thread. Functions that are not overridden do nothing.
class StateListener {
 public:
  virtual ~StateListener() = default;

  virtual void OnJob(const JobPtr& /*job*/) {}
  virtual void OnEvents(const std::string& /*job*/, const std::vector<v1::Event>& /*events*/) {}
  // Called for each CREATED or STATE_CHANGED event of a job, except replayed events. `record` is the job's record after
  // all updates that were committed together with the update of the event.
  virtual void OnJobMoved(const internal::JobRecord& /*record*/, const v1::Event& /*event*/) {}
  virtual void OnJobDeleted(const DeletedJob& /*job*/) {}
  virtual void OnHistoryDeleted(const DeletedHistory& /*history*/) {}
  virtual void OnWorker(const internal::WorkerRecord& /*worker*/) {}
  virtual void OnWorkerRemoved(const std::string& /*worker*/) {}

  // Called when the worker's stream should send WorkerSessions::CurrentDirective. Called from any thread.
  virtual void OnDirectiveDue(const std::string& /*worker*/) {}
  // `line` describes a problem of a worker that an operator should know: another agent claims the worker's name, or its
  // reports are inconsistent. The same line is not reported again. Called from any thread.
  virtual void OnWorkerTrouble(const std::string& /*worker*/, const std::string& /*line*/) {}
  // Called when the wall clock has leapt by `leap`, or differs by `leap` from the newest time in the journal. During
  // WallClockWatch::kQuiet after this call, nothing is deleted by its age. Called from the thread that calls
  // Coordinator::Start or Tick.
  virtual void OnClockLeap(absl::Duration /*leap*/) {}
  // Called at the end of each placement run, with the number of jobs that waited and the number of jobs that were
  // placed. Called from any thread.
  virtual void OnPlacement(size_t /*num_waiting*/, size_t /*num_placed*/, absl::Duration /*time*/) {}
};

}  // namespace ampd::server
