#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/state/cluster_state.h"

namespace ampd::server {

// Of a job's attempts the newest ones; older ones are forgotten.
inline constexpr int kAttemptsKept = 16;

// A job's next record, being made from its present one. Every change of state goes through Move, which holds it to the
// table of legal moves and tells of it by an event. Single-threaded: owner is the transition that makes it.
class JobEdit {
 public:
  JobEdit(const internal::JobRecord& base, int64_t time_unix_micros);

  internal::JobRecord& record() { return *record_; }
  v1::Job& job() { return *record_->mutable_job(); }
  // REQUIRES: the job has one.
  v1::Attempt& newest_attempt() { return *job().mutable_attempts(job().attempts_size() - 1); }
  int64_t time_unix_micros() const { return time_unix_micros_; }

  // FAILED_PRECONDITION (reason ILLEGAL_MOVE) when the table does not allow it.
  absl::Status Move(v1::Job::State to, v1::Reason reason, std::string message);
  // A new event of the job, numbered and stamped.
  v1::Event& AddEvent(v1::Event::Kind kind);
  // Begins an attempt; of all, kAttemptsKept are kept.
  v1::Attempt& AddAttempt(const std::string& token);
  // The newest attempt is over; nothing else changes.
  void CloseAttempt(const v1::Outcome& outcome);

  // Hands the record and the events over. The edit is used up.
  void Finish(Applied* applied);

 private:
  std::shared_ptr<internal::JobRecord> record_;
  int64_t time_unix_micros_;
  std::vector<JobEvent> events_;
};

// Decides what becomes of the job whose newest attempt ended so, and moves it there.
absl::Status EndNewestAttempt(const v1::Outcome& outcome, JobEdit& edit);

}  // namespace ampd::server
