// Texts about how a job ended, and about the commands to type next.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/enum_text.h"
#include "client/render/job_text.h"
#include "client/render/job_text_parts.h"
#include "points/step_columns.h"

namespace ampd::client {
namespace {

bool HasFinalMetrics(const v1::Job& job) {
  return job.attempts_size() > 0 && job.attempts().rbegin()->outcome().has_final_metrics();
}

}  // namespace

std::string ReasonText(v1::Reason::Code reason) {
  return reason == v1::Reason::REASON_UNSPECIFIED || reason == v1::Reason::SUCCEEDED_NORMALLY ? kNothing
                                                                                              : EnumText(reason);
}

std::string FinalLines(const v1::Job& job) {
  if (!HasFinalMetrics(job)) {
    return "";
  }
  const v1::FinalMetrics& metrics = job.attempts().rbegin()->outcome().final_metrics();
  const std::string costs = absl::StrCat(FormatNumber(metrics.steps_per_second()), " steps/s, peak memory ",
                                         FormatBytes(metrics.peak_memory_bytes()));
  if (job.spec().has_predict()) {
    return DetailLine("final", costs);
  }
  std::string text = metrics.has_eval_loss()
                         ? absl::StrCat(EvalQuality(metrics), "eval loss ", FormatNumber(metrics.eval_loss()), ", ")
                         : "";
  absl::StrAppend(&text, "train loss ", FormatNumber(metrics.train_loss()), LaterLosses(points::PhaseLosses(metrics)),
                  ", loss scale ", FormatNumber(metrics.final_loss_scale()), ", ", FormatCount(metrics.skipped_steps()),
                  " steps skipped");
  return DetailLine("final", text) + DetailLine("", costs);
}

std::string RenderEnd(const v1::Job& job) {
  const std::string reason = job.reason() == v1::Reason::USER_CANCELLED ? kNothing : ReasonText(job.reason());
  std::string text = absl::StrCat(EnumText(job.state()), reason == kNothing ? "" : " (" + reason + ")");
  std::vector<std::string> words;
  if (!job.message().empty()) {
    words.push_back(Printable(job.message()));
  }
  if (HasFinalMetrics(job) && !job.spec().has_predict()) {
    const v1::Outcome& outcome = job.attempts().rbegin()->outcome();
    const v1::FinalMetrics& metrics = outcome.final_metrics();
    if (metrics.has_eval_loss()) {
      words.push_back(absl::StrCat(EvalQuality(metrics), "eval loss ", FormatNumber(metrics.eval_loss())));
    }
    words.push_back(
        absl::StrCat("train loss ", FormatNumber(metrics.train_loss()), LaterLosses(points::PhaseLosses(metrics))));
    words.push_back(absl::StrCat(FormatNumber(metrics.steps_per_second()), " steps/s"));
    words.push_back(
        absl::StrCat(FormatCount(metrics.skipped_steps()), " of ", FormatCount(outcome.last_step()), " steps skipped"));
  }
  return words.empty() ? text : absl::StrCat(text, ": ", absl::StrJoin(words, ", "));
}

std::string NextCommands(const v1::Job& job, const std::string& program) {
  const auto line = [&](const char* purpose, const char* verb) {
    return absl::StrCat("  ", purpose, ": ", program, " job ", verb, " ", Printable(job.id()));
  };
  const std::string submit = program + " job submit -f FILE";
  switch (job.state()) {
    case v1::Job::QUEUED:
      return line("why it waits", "explain");
    case v1::Job::STARTING:
    case v1::Job::RUNNING:
      return line("watch", "watch");
    case v1::Job::PAUSED:
      return line("resume", "resume");
    case v1::Job::FAILED: {
      const std::string logs = line("logs", "logs") + "\n";
      if (job.reason() == v1::Reason::SPEC_ERROR) {
        return logs + "  run it again after you have corrected the job file: " + submit;
      }
      if (job.spec().has_predict()) {
        return logs + line("run it again", "retry");
      }
      return logs + (job.reason() == v1::Reason::DATA_ERROR
                         ? line("run it again after you have corrected its data", "retry") +
                               "\n  read other data after you have corrected the job file: " + submit
                         : line("resume from its last checkpoint", "retry"));
    }
    default:
      return "";
  }
}

}  // namespace ampd::client
