#pragma once

#include <cstdint>
#include <string>
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
// A live attempt exists exactly in these states.
bool IsActive(v1::Job::State state);
// The table of legal moves. No state moves to itself.
bool IsLegalMove(v1::Job::State from, v1::Job::State to);

// Whether a live attempt may go on so. Not to ENDED, which an outcome comes with; RUNNING, STOPPING and SUSPENDED are
// as far as one another, and may come and go.
bool IsProgress(v1::Attempt::State from, v1::Attempt::State to);
// Whether the attempt has come as far as RUNNING. REQUIRES: it is live.
bool HasBegun(v1::Attempt::State state);
// Whether a worker tells of a live attempt what is not known: a state further on, another precision, its steps.
bool IsNews(const internal::AdvanceAttempt& told, const v1::Attempt& known);

// What becomes of a job whose attempt ended for this reason.
enum class Blame {
  NOBODY,          // it was told to leave: nothing is counted
  INFRASTRUCTURE,  // tried again, without using up a retry
  JOB,             // tried again while retries are left
  USER,            // not tried again: it would end the same way
};
Blame BlameFor(v1::Reason reason);

// Whether the worker finds the checkpoint below its root: a local one is there under the agent that saved it alone, and
// not under another that has the name since. An identity that is not known is anyone's.
bool Reaches(const internal::WorkerRecord& worker, const v1::Checkpoint& checkpoint);

// What tells the agent from others and gives its id, by which it could be spoken for, to nobody. Empty without an id.
std::string AgentDigest(const v1::AgentIdentity& agent);

// Whether it was recorded, and possibly deleted since.
bool IsRecorded(const internal::JobRecord& record, const v1::Checkpoint& checkpoint);

// Where below the root a trainer puts the job's checkpoint (train::CheckpointStore): "<job>/<attempt>/step-<n>".
std::string PathOf(const std::string& job, const v1::Checkpoint& checkpoint);
// Below whose folder the checkpoint of this path lies: a path begins with the job's id.
std::string JobOfPath(const std::string& path);
bool Keeps(const v1::Job& job, const std::string& path);
// NOT_FOUND: a job was to begin with a checkpoint of another, which is deleted.
absl::Status NoLongerKept(const std::string& job);

// Whether an attempt that starts from the checkpoint goes on where that is; else it begins, with the weights alone,
// since the checkpoint is that of model.initial_checkpoint. The worker decides it likewise (train::GoesOn).
bool GoesOn(const v1::JobSpec& spec, const v1::Checkpoint& start);

// What an attempt of the job may begin with when `start`, its StartPoint, is damaged: recorded before it, newest first.
std::vector<v1::Checkpoint> OlderThan(const internal::JobRecord& record, const v1::Checkpoint& start);

// Attempts in a row that may end without a new checkpoint.
inline constexpr int kMaxAttemptsWithoutCheckpoint = 3;

// How long to wait before the next attempt, after so many in a row without a new checkpoint: the first retry is at
// once.
inline constexpr absl::Duration kMaxRetryDelay = absl::Minutes(1);
absl::Duration RetryDelay(int attempts_without_checkpoint);

}  // namespace ampd::server
