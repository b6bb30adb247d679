#include "server/state/job_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"

namespace ampd::server {

using v1::Attempt;
using v1::Job;

namespace {

int Rank(Attempt::State state) {
  switch (state) {
    case Attempt::ASSIGNED:
      return 0;
    case Attempt::STARTING:
      return 1;
    case Attempt::RUNNING:
    case Attempt::STOPPING:
    case Attempt::SUSPENDED:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

bool IsTerminal(Job::State state) { return state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED; }

bool IsActive(Job::State state) {
  return state == Job::STARTING || state == Job::RUNNING || state == Job::PAUSING || state == Job::CANCELLING;
}

bool IsLegalMove(Job::State from, Job::State to) {
  switch (from) {
    case Job::QUEUED:
      return to == Job::STARTING || to == Job::PAUSED || to == Job::CANCELLED || to == Job::FAILED;
    case Job::STARTING:
      return to == Job::RUNNING || to == Job::PAUSING || to == Job::CANCELLING || to == Job::QUEUED ||
             to == Job::SUCCEEDED || to == Job::FAILED;
    case Job::RUNNING:
      return to == Job::PAUSING || to == Job::CANCELLING || to == Job::QUEUED || to == Job::SUCCEEDED ||
             to == Job::FAILED;
    case Job::PAUSING:
      return to == Job::PAUSED || to == Job::QUEUED || to == Job::CANCELLING || to == Job::SUCCEEDED ||
             to == Job::FAILED;
    case Job::PAUSED:
      return to == Job::QUEUED || to == Job::CANCELLED || to == Job::FAILED;
    case Job::CANCELLING:
      // A job in CANCELLING can also end as FAILED, because its deadline may pass.
      return to == Job::CANCELLED || to == Job::FAILED;
    default:
      return false;
  }
}

bool IsProgress(Attempt::State from, Attempt::State to) {
  return from != to && Rank(to) >= Rank(from) && Rank(to) <= Rank(Attempt::RUNNING);
}

bool HasBegun(Attempt::State state) { return Rank(state) == Rank(Attempt::RUNNING); }

bool HasChanges(const internal::AdvanceAttempt& reported, const Attempt& known) {
  const bool other_precision = !reported.precision().empty() &&
                               (reported.precision() != known.precision() || reported.emulated() != known.emulated());
  const bool other_steps = reported.total_steps() > 0 && reported.total_steps() != known.total_steps();
  return IsProgress(known.state(), reported.state()) || other_precision || other_steps;
}

Blame BlameFor(v1::Reason::Code reason) {
  switch (reason) {
    case v1::Reason::USER_CANCELLED:
    case v1::Reason::USER_PAUSED:
      return Blame::NOBODY;
    case v1::Reason::WORKER_LOST:
    case v1::Reason::PREEMPTED:
    case v1::Reason::WORKER_DRAINED:
    case v1::Reason::DEVICE_ERROR:
      return Blame::INFRASTRUCTURE;
    case v1::Reason::OUT_OF_MEMORY:
    case v1::Reason::NONFINITE_LOSS:
    case v1::Reason::NONFINITE_GRADIENTS:
    case v1::Reason::NONFINITE_STATE:
    case v1::Reason::LOSS_SCALE_COLLAPSED:
    case v1::Reason::DIVERGED:
    case v1::Reason::DATA_ERROR:
    case v1::Reason::SPEC_ERROR:
    case v1::Reason::DEADLINE:
      return Blame::USER;
    default:
      // All other reasons: crashes, checkpoints that can't be written, internal errors, and reasons that only newer
      // workers know.
      return Blame::JOB;
  }
}

bool Reaches(const internal::WorkerRecord& worker, const v1::Checkpoint& checkpoint) {
  if (!checkpoint.local() && worker.worker().checkpoint_root_shared()) {
    return true;
  }
  const std::string agent = AgentDigest(worker.agent());
  return checkpoint.worker() == worker.worker().name() &&
         (checkpoint.agent() == agent || checkpoint.agent().empty() || agent.empty());
}

std::string AgentDigest(const v1::AgentIdentity& agent) {
  constexpr size_t kCharacters = 32;
  return agent.id().empty() ? "" : Sha256Hex(absl::StrCat("agent ", agent.id())).substr(0, kCharacters);
}

bool IsRecorded(const internal::JobRecord& record, const v1::Checkpoint& checkpoint) {
  return checkpoint.attempt() < record.last_checkpoint_attempt() ||
         (checkpoint.attempt() == record.last_checkpoint_attempt() &&
          checkpoint.step() <= record.last_checkpoint_step());
}

std::string PathOf(const std::string& job, const v1::Checkpoint& checkpoint) {
  return absl::StrCat(job, "/", checkpoint.attempt(), "/step-", checkpoint.step());
}

std::string JobOfPath(const std::string& path) { return path.substr(0, path.find('/')); }

bool Keeps(const v1::Job& job, const std::string& path) {
  return std::any_of(job.checkpoints().begin(), job.checkpoints().end(),
                     [&](const v1::Checkpoint& checkpoint) { return checkpoint.path() == path; });
}

absl::Status WrongState(const v1::Job& job, std::string_view what) {
  const std::string& state = v1::Job::State_Name(job.state());
  return ErrorWithMetadata(absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
                           absl::StrCat("job ", job.id(), " is ", state, " and can't be ", std::string(what)),
                           {{"job", job.id()}, {"state", state}});
}

absl::Status NoLongerKept(const std::string& job) {
  return ErrorWithMetadata(
      absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
      absl::StrCat("job ", job, " no longer keeps the checkpoint to begin with; a clone can start from the beginning"),
      {{"job", job}});
}

bool ResumesTraining(const v1::JobSpec& spec, const v1::Checkpoint& start) {
  return !spec.model().has_initial_checkpoint() ||
         JobOfPath(start.path()) != spec.model().initial_checkpoint().job_id();
}

std::vector<v1::Checkpoint> OlderThan(const internal::JobRecord& record, const v1::Checkpoint& start) {
  std::vector<v1::Checkpoint> older;
  const auto& kept = record.job().checkpoints();
  const auto found = std::find_if(kept.rbegin(), kept.rend(), [&start](const v1::Checkpoint& checkpoint) {
    return checkpoint.path() == start.path();
  });
  const bool is_own = found != kept.rend();
  if (is_own) {
    older.assign(std::next(found), kept.rend());
  }
  // Adds the checkpoint with which the job began, but only if the job resumed training from that checkpoint. If the job
  // took only the weights of that checkpoint, an attempt that starts from it begins at step 0 and resumes nothing.
  if (is_own && record.has_clone_start() && ResumesTraining(record.job().spec(), record.clone_start())) {
    older.push_back(record.clone_start());
  }
  if (!is_own || (record.has_clone_start() && ResumesTraining(record.job().spec(), record.clone_start()))) {
    older.insert(older.end(), record.older_starts().begin(), record.older_starts().end());
  }
  return older;
}

int32_t NextAttemptNumber(const internal::JobRecord& record) {
  return std::max(record.job().num_attempts() + 1, record.least_attempt());
}

int32_t LeastAttemptAfterGap(const internal::JobRecord& record, int32_t gap) {
  constexpr int32_t kThousand = 1000;
  const int32_t last = std::max(record.job().num_attempts(), record.least_attempt());
  return last / kThousand * kThousand + gap + 1;
}

absl::Duration RetryDelay(int attempts_without_checkpoint) {
  if (attempts_without_checkpoint <= 1) {
    return absl::ZeroDuration();
  }
  return std::min(absl::Seconds(5) * (1 << std::min(attempts_without_checkpoint - 2, 10)), kMaxRetryDelay);
}

}  // namespace ampd::server
