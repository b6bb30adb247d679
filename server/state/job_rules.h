#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"

// The rules of a job's life, as pure functions.
//
//   QUEUED -> STARTING -> RUNNING -> SUCCEEDED
//     ^  \        \          \-> FAILED, CANCELLED
//     |   PAUSED   PAUSING -> PAUSED or QUEUED
//     +-- a retry, a resumed job, a drained or preempted one
namespace ampd::server {

bool IsTerminal(v1::Job::State state);
// Whether the job has a live attempt in this state.
bool IsActive(v1::Job::State state);
// The table of legal moves. No state moves to itself.
bool IsLegalMove(v1::Job::State from, v1::Job::State to);

// Whether a live attempt may move from one state to the other. ENDED is excluded, because it comes with an outcome.
// RUNNING, STOPPING and SUSPENDED have the same rank, so an attempt may move between them in both directions.
bool IsProgress(v1::Attempt::State from, v1::Attempt::State to);
// Whether the attempt has reached RUNNING. REQUIRES: it is live.
bool HasBegun(v1::Attempt::State state);
// Whether a worker's report about a live attempt contains something new: a later state, another precision, or another
// total number of steps.
bool IsNews(const internal::AdvanceAttempt& told, const v1::Attempt& known);

// The party responsible for the end of an attempt, which decides whether the job is retried.
enum class Blame {
  NOBODY,          // The attempt left on request; nothing is counted.
  INFRASTRUCTURE,  // Retried, without using up a retry.
  JOB,             // Retried while retries are left.
  USER,            // Not retried, because it would end the same way.
};
Blame BlameFor(v1::Reason::Code reason);

// Whether the worker can reach the checkpoint's files. A worker whose root is shared can reach every checkpoint that
// is not local. Other checkpoints only the agent that saved them can reach, not another agent that has taken over the
// worker's name. An empty agent id (from older records) matches any agent.
bool Reaches(const internal::WorkerRecord& worker, const v1::Checkpoint& checkpoint);

// Returns a digest of the agent's id. It distinguishes agents without revealing the id, with which others could
// impersonate the agent. Empty if the agent has no id.
std::string AgentDigest(const v1::AgentIdentity& agent);

// Whether the checkpoint was recorded; it may have been deleted since.
bool IsRecorded(const internal::JobRecord& record, const v1::Checkpoint& checkpoint);

// The path below the checkpoint root at which a trainer saves the checkpoint (train::CheckpointStore):
// "<job>/<attempt>/step-<n>".
std::string PathOf(const std::string& job, const v1::Checkpoint& checkpoint);
// The job whose folder contains the checkpoint of this path. A path begins with the job's id.
std::string JobOfPath(const std::string& path);
bool Keeps(const v1::Job& job, const std::string& path);
// The error FAILED_PRECONDITION for a request that the job's state does not allow; `what`: "paused".
absl::Status WrongState(const v1::Job& job, std::string_view what);
// The error NOT_FOUND for a request to begin a job with a checkpoint of `job` that has been deleted.
absl::Status NoLongerKept(const std::string& job);

// Whether an attempt that starts from this checkpoint resumes training at the checkpoint's step. If not, the checkpoint
// is that of model.initial_checkpoint: the attempt takes only its weights and begins at step 0.
bool ResumesTraining(const v1::JobSpec& spec, const v1::Checkpoint& start);

// Returns the checkpoints from which the job's next attempt can start instead if `start`, the result of StartPoint, is
// damaged. They were recorded before it; newest first.
std::vector<v1::Checkpoint> OlderThan(const internal::JobRecord& record, const v1::Checkpoint& start);

// The number of the job's next attempt. Numbers grow by one, except after the server was restored from a backup.
int32_t NextAttemptNumber(const internal::JobRecord& record);
// The least number of the next attempt after a restore: the first one of the thousand that is `gap` above that of the
// job's last attempt.
int32_t LeastAttemptAfterGap(const internal::JobRecord& record, int32_t gap);

// A job fails when this many attempts in a row ended without a new checkpoint.
inline constexpr int kMaxAttemptsWithoutCheckpoint = 3;

// The wait before a job's next attempt grows with the number of its attempts in a row that ended without a new
// checkpoint, up to kMaxRetryDelay. The first retry is immediate.
inline constexpr absl::Duration kMaxRetryDelay = absl::Minutes(1);
absl::Duration RetryDelay(int attempts_without_checkpoint);

}  // namespace ampd::server
