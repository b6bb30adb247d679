#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"

// The rules for the states of jobs and attempts, as pure functions. The states of a job:
//
//   QUEUED -> STARTING -> RUNNING -> SUCCEEDED
//     ^  \        \          \-> FAILED, CANCELLED
//     |   PAUSED   PAUSING -> PAUSED or QUEUED
//     +-- a job that is retried, resumed, drained or preempted
namespace ampd::server {

bool IsTerminal(v1::Job::State state);
// Whether a job in this state has a live attempt.
bool IsActive(v1::Job::State state);
// Whether the table of legal moves allows this move. It allows no move from a state to itself.
bool IsLegalMove(v1::Job::State from, v1::Job::State to);

// Whether a live attempt may move from one state to the other. ENDED is excluded, because it comes with an outcome.
// RUNNING, STOPPING and SUSPENDED have the same rank, so an attempt may move between them in both directions.
bool IsProgress(v1::Attempt::State from, v1::Attempt::State to);
// Whether an attempt in this state has reached RUNNING. REQUIRES: the attempt is live.
bool HasBegun(v1::Attempt::State state);
// Whether a worker's report about a live attempt contains something new: a later state, another precision, or another
// total number of steps.
bool HasChanges(const internal::AdvanceAttempt& reported, const v1::Attempt& known);

// The party responsible for the end of an attempt, which decides whether the job is retried.
enum class Blame {
  NOBODY,          // The attempt exited on request, so nothing is counted.
  INFRASTRUCTURE,  // Retried. The retry does not count towards max_retries.
  JOB,             // Retried while the job has retries left.
  USER,            // Not retried, because a retry would fail for the same reason.
};
Blame BlameFor(v1::Reason::Code reason);

// Whether the worker can reach the checkpoint's files. If the checkpoint was saved in a shared checkpoint root (it is
// not `local`), every worker with a shared root can reach it. In all other cases, only the worker that saved the
// checkpoint can reach it. That worker's agent must then be the one that saved it, not another agent that has taken
// over the worker's name. An empty agent id (older records, or a checkpoint that is not `local`) matches any agent.
bool Reaches(const internal::WorkerRecord& worker, const v1::Checkpoint& checkpoint);

// Returns a digest of the agent's id; empty if the agent has no id. The digest tells agents apart without revealing the
// id. Whoever knows the id could impersonate the agent.
std::string AgentDigest(const v1::AgentIdentity& agent);

// Whether the checkpoint was ever recorded. It may have been deleted since then.
bool IsRecorded(const internal::JobRecord& record, const v1::Checkpoint& checkpoint);

// Returns the path at which a trainer saves the checkpoint, relative to the checkpoint root (train::CheckpointStore):
// "<job>/<attempt>/step-<n>".
std::string PathOf(const std::string& job, const v1::Checkpoint& checkpoint);
// Returns the job's id with which the path of a checkpoint begins.
std::string JobOfPath(const std::string& path);
bool Keeps(const v1::Job& job, const std::string& path);
// Returns the error FAILED_PRECONDITION for a request that the job's state does not allow. `what` is a participle such
// as "paused".
absl::Status WrongState(const v1::Job& job, std::string_view what);
// Returns the error NOT_FOUND for a request to begin a job with a deleted checkpoint of `job`.
absl::Status NoLongerKept(const std::string& job);

// Whether an attempt that starts from this checkpoint resumes training at the checkpoint's step. Otherwise the
// checkpoint is that of model.initial_checkpoint: the attempt takes only its weights and begins at step 0.
bool ResumesTraining(const v1::JobSpec& spec, const v1::Checkpoint& start);

// Returns the checkpoints from which the job's next attempt can start if `start`, the result of StartPoint, is damaged.
// These are older than `start`; the newest comes first.
std::vector<v1::Checkpoint> OlderThan(const internal::JobRecord& record, const v1::Checkpoint& start);

// Returns the number of the job's next attempt. Numbers grow by one, except after the server was restored from a
// backup.
int32_t NextAttemptNumber(const internal::JobRecord& record);
// Returns the lowest number of the job's next attempt after a restore. The number of the last attempt is rounded down
// to a multiple of 1000, and `gap` plus one is added.
int32_t LeastAttemptAfterGap(const internal::JobRecord& record, int32_t gap);

// A job fails when this many attempts in a row ended without a new checkpoint.
inline constexpr int kMaxAttemptsWithoutCheckpoint = 3;

// The longest wait before a job's next attempt. The wait grows with the number of attempts in a row that ended without
// a new checkpoint. The first retry is immediate.
inline constexpr absl::Duration kMaxRetryDelay = absl::Minutes(1);
absl::Duration RetryDelay(int attempts_without_checkpoint);

}  // namespace ampd::server
