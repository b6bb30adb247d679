#include "client/commands/job_checkpoint.h"

#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "client/commands/find_job.h"

namespace ampd::client {
namespace {

absl::Status NoCheckpoint(const v1::Job& job, const std::string& message) {
  return ErrorWithMetadata(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND", message, {{"job", job.id()}});
}

// Returns the end of a message that names the attempts of the job's checkpoints: ", in the attempts 1, 2".
std::string AttemptsText(const v1::Job& job) {
  std::set<int> attempts;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    attempts.insert(checkpoint.attempt());
  }
  return attempts.empty() ? ""
                          : absl::StrCat(attempts.size() == 1 ? ", in attempt " : ", in the attempts ",
                                         absl::StrJoin(attempts, ", "));
}

}  // namespace

std::string CheckpointMeant(const std::string& which) {
  const std::string lower = absl::AsciiStrToLower(which);
  for (const char* newest : {"latest", "last", "final", "end", "current", "head"}) {
    if (lower == newest) {
      return "newest";
    }
  }
  for (const char* best : {"lowest", "min", "top", "optimal"}) {
    if (lower == best) {
      return "best";
    }
  }
  const size_t digits = lower.find_first_of("0123456789");
  const bool is_step =
      digits != std::string::npos && lower.find_first_not_of("0123456789", digits) == std::string::npos;
  return is_step && digits > 0 ? lower.substr(digits) : Nearest(lower, {"best", "newest"});
}

absl::StatusOr<JobCheckpoint> ParseJobCheckpoint(const std::string& argument, const std::string& text) {
  const size_t at = text.rfind('@');
  JobCheckpoint wanted = {.job = text.substr(0, at)};
  const std::string which = at == std::string::npos ? "newest" : text.substr(at + 1);
  wanted.best = which == "best";
  const bool is_step = absl::SimpleAtoi(which, &wanted.step) && wanted.step > 0;
  if (wanted.job.empty() || (!is_step && !wanted.best && which != "newest")) {
    return absl::InvalidArgumentError(absl::StrCat(
        argument, " is '", text,
        "'; it must be JOB, JOB@best, JOB@newest or JOB@STEP, where STEP is the number of a step at which the job has "
        "a checkpoint",
        wanted.job.empty() || CheckpointMeant(which).empty()
            ? ""
            : absl::StrCat("; did you mean '", wanted.job, "@", CheckpointMeant(which), "'?")));
  }
  return wanted;
}

absl::StatusOr<v1::Checkpoint> ChooseCheckpoint(const v1::Job& job, const JobCheckpoint& wanted) {
  const v1::Checkpoint* chosen = nullptr;
  bool has_attempt = false;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {  // The oldest comes first.
    if (wanted.attempt > 0 && checkpoint.attempt() != wanted.attempt) {
      continue;
    }
    has_attempt = true;
    const bool is_best_so_far = checkpoint.has_eval_loss() && std::isfinite(checkpoint.eval_loss()) &&
                                (chosen == nullptr || checkpoint.eval_loss() < chosen->eval_loss());
    const bool is_better = wanted.best ? is_best_so_far : wanted.step == 0 || checkpoint.step() == wanted.step;
    chosen = is_better ? &checkpoint : chosen;
  }
  if (chosen != nullptr) {
    return *chosen;
  }
  if (wanted.best && has_attempt) {
    return NoCheckpoint(job,
                        absl::StrCat("no checkpoint of job ", job.id(),
                                     " has a finite evaluation loss, so none is the best. To use the newest, leave out "
                                     "@best. To have later jobs keep their best one, set checkpoint.keep_best"));
  }
  return NoCheckpoint(job, absl::StrCat("job ", job.id(), " has no checkpoint",
                                        wanted.step > 0 ? absl::StrCat(" of step ", wanted.step) : "",
                                        wanted.attempt > 0 ? absl::StrCat(" in attempt ", wanted.attempt) : "",
                                        StepsText({job.checkpoints().begin(), job.checkpoints().end()}),
                                        has_attempt ? "" : AttemptsText(job)));
}

std::string StepsText(const std::vector<v1::Checkpoint>& checkpoints) {
  constexpr size_t kMostNamed = 12;
  std::set<int64_t> steps;
  for (const v1::Checkpoint& checkpoint : checkpoints) {
    steps.insert(checkpoint.step());
  }
  if (steps.empty()) {
    return "";
  }
  if (steps.size() > kMostNamed) {
    return absl::StrCat("; the job has checkpoints at ", steps.size(), " steps, from step ", *steps.begin(), " to ",
                        *steps.rbegin());
  }
  const int64_t last = *steps.rbegin();
  steps.erase(last);
  return steps.empty()
             ? absl::StrCat("; the job has a checkpoint of step ", last)
             : absl::StrCat("; the job has checkpoints of the steps ", absl::StrJoin(steps, ", "), " and ", last);
}

absl::StatusOr<FoundCheckpoint> FindJobCheckpoint(JobClient* client, const JobCheckpoint& wanted) {
  AMPD_ASSIGN_OR_RETURN(const std::string id, FindJobId(client, wanted.job));
  FoundCheckpoint found;
  AMPD_ASSIGN_OR_RETURN(found.job, client->GetJob(id));
  AMPD_ASSIGN_OR_RETURN(found.checkpoint, ChooseCheckpoint(found.job, wanted));
  return found;
}

}  // namespace ampd::client
