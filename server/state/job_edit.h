#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/state/cluster_state.h"

namespace ampd::server {

// How many attempts a job's record keeps. When there are more, the oldest ones are dropped.
inline constexpr int kAttemptsKept = 16;

// Builds a job's next record from its present one. Every change of state goes through Move, which checks it against the
// table of legal moves and records an event. Single-threaded; owned by the transition that creates it.
class JobEdit {
 public:
  JobEdit(const internal::JobRecord& base, int64_t time_unix_micros);

  internal::JobRecord& record() { return *record_; }
  v1::Job& job() { return *record_->mutable_job(); }
  // Returns the newest attempt. REQUIRES: the job has an attempt.
  v1::Attempt& newest_attempt() { return *job().mutable_attempts(job().attempts_size() - 1); }
  int64_t time_unix_micros() const { return time_unix_micros_; }

  // Changes the job's state. FAILED_PRECONDITION (reason ILLEGAL_MOVE) if the table does not allow this move.
  absl::Status Move(v1::Job::State to, v1::Reason::Code reason, std::string message);
  // Adds an event to the job, with its number and time set.
  v1::Event& AddEvent(v1::Event::Kind kind);
  // Adds an attempt. If there are more than kAttemptsKept attempts, removes the oldest.
  v1::Attempt& AddAttempt(const std::string& token);
  // Sets the start time of the newest attempt, and that of the job if it has none. Neither changes the state.
  void SetStart(int64_t start_unix_micros);
  // Marks the newest attempt as ended. The job's state stays as it is.
  void CloseAttempt(const v1::Outcome& outcome);

  // Moves the record and the events into `applied`. The JobEdit must not be used afterwards.
  void Finish(Applied* applied);

 private:
  std::shared_ptr<internal::JobRecord> record_;
  int64_t time_unix_micros_;
  std::vector<JobEvent> events_;
};

// Decides which state follows for a job whose newest attempt ended with this outcome, and moves the job to that state.
absl::Status EndNewestAttempt(const v1::Outcome& outcome, JobEdit& edit);

}  // namespace ampd::server
