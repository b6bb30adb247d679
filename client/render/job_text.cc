#include "client/render/job_text.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/api/tenants.h"
#include "base/trace_context.h"
#include "client/render/csv.h"
#include "client/render/enum_text.h"
#include "client/render/job_text_parts.h"

namespace ampd::client {
namespace {

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

int64_t TotalSteps(const v1::Job& job) {
  return job.progress().total_steps() > 0 ? job.progress().total_steps() : job.spec().train().steps();
}

// Returns an age as text: "30 days" for a whole number of days, otherwise a form such as "36h".
std::string AgeText(const google::protobuf::Duration& age) {
  constexpr int64_t kDay = int64_t{24} * 3600;
  if (age.seconds() % kDay == 0 && age.nanos() == 0) {
    return absl::StrCat(age.seconds() / kDay, age.seconds() == kDay ? " day" : " days");
  }
  return absl::FormatDuration(absl::Seconds(age.seconds()) + absl::Nanoseconds(age.nanos()));
}

std::string TimesLine(const v1::Job& job, const JobTextOptions& options) {
  const absl::Time created = TimeOf(job.create_time());
  std::string text =
      absl::StrCat(FormatTimestamp(created, options.zone), " (", FormatSpan(options.now - created), " ago)");
  if (job.has_start_time()) {
    const absl::Time end = job.has_end_time() ? TimeOf(job.end_time()) : options.now;
    const std::string since = FormatSpan(end - TimeOf(job.start_time()));
    absl::StrAppend(&text, ", first step after ", FormatSpan(TimeOf(job.start_time()) - created),
                    job.has_end_time() ? ", ended after another " + since : ", " + since + " ago");
  }
  return DetailLine("created", text);
}

// Returns a line that says how busy the device is; "" if nothing about this is known.
std::string DeviceLine(const v1::Progress& progress) {
  std::vector<std::string> texts;
  if (progress.has_mfu()) {
    texts.push_back(absl::StrFormat("MFU %.1f%%", 100 * progress.mfu()));
  }
  if (progress.has_flops_per_second()) {
    texts.push_back(FormatFlops(progress.flops_per_second()));
  }
  if (progress.has_device_utilization()) {
    texts.push_back(absl::StrFormat("busy %.0f%% of the time", 100 * progress.device_utilization()));
  }
  if (progress.has_power_watts()) {
    texts.push_back(absl::StrFormat("%.0f W", progress.power_watts()));
  }
  return texts.empty() ? "" : DetailLine("compute", absl::StrJoin(texts, ", "));
}

std::string ProgressLines(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  const int64_t total = TotalSteps(job);
  const std::string step =
      absl::StrCat("step ", FormatCount(progress.step()), total > 0 ? "/" + FormatCount(total) : "",
                   HasStoppedEarly(job) ? " (stopped early)" : "");
  if (progress.step() == 0) {
    return DetailLine("progress", "no step yet" + (total > 0 ? " of " + FormatCount(total) : std::string()));
  }
  if (!progress.has_loss()) {
    return DetailLine("progress", step);  // if the job stopped long ago, only the step may be known
  }
  std::string text = DetailLine(
      "progress",
      absl::StrCat(step, ", loss ", FormatNumber(progress.loss()), LaterLosses(progress.phases()), ", loss scale ",
                   FormatNumber(progress.loss_scale()), ", ", FormatCount(progress.skipped_steps()), " steps skipped"));
  if (progress.has_eval_loss()) {
    text += DetailLine("eval", absl::StrCat(EvalQuality(progress), "loss ", FormatNumber(progress.eval_loss())));
  }
  const std::string now =
      progress.memory_allocated_bytes() > 0 ? FormatBytes(progress.memory_allocated_bytes()) + ", " : "";
  const std::string predicted =
      progress.memory_predicted_bytes() > 0
          ? ", predicted " + FormatBytes(progress.memory_predicted_bytes()) + " for the steps alone"
          : "";
  text += DetailLine("memory", absl::StrCat(now, "peak ", FormatBytes(progress.memory_peak_bytes()), predicted));
  return text + DeviceLine(progress);
}

std::string AttemptLine(const v1::Attempt& attempt) {
  const bool ended = attempt.has_outcome();
  std::string text = ended ? EnumText(attempt.outcome().kind()) : EnumText(attempt.state());
  if (ended) {
    const std::string reason = ReasonText(attempt.outcome().reason());
    absl::StrAppend(&text, reason == kNothing ? "" : " (" + reason + ")", " at step ",
                    FormatCount(attempt.outcome().last_step()));
  }
  absl::StrAppend(&text, ", on ", Printable(attempt.worker()), " ", Printable(absl::StrJoin(attempt.devices(), ",")),
                  ", ", Printable(attempt.precision()), attempt.emulated() ? " (emulated)" : "");
  if (attempt.from_step() > 0) {
    absl::StrAppend(&text, ", from step ", FormatCount(attempt.from_step()));
  }
  if (ended && !attempt.outcome().message().empty()) {
    absl::StrAppend(&text, ": ", Printable(attempt.outcome().message()));
  }
  return DetailLine(absl::StrCat("attempt ", attempt.number()), text);
}

// Returns a line with the attempt's times and other facts that only the wide format shows.
std::string WideAttemptLine(const v1::Attempt& attempt, const JobTextOptions& options) {
  const auto time = [&options](const char* before, bool known, const google::protobuf::Timestamp& at) {
    return known ? before + FormatTimestamp(TimeOf(at), options.zone) : std::string();
  };
  std::string text = absl::StrCat(time("assigned ", attempt.has_assign_time(), attempt.assign_time()),
                                  time(", started ", attempt.has_start_time(), attempt.start_time()),
                                  time(", ended ", attempt.has_end_time(), attempt.end_time()));
  if (attempt.outcome().signal() > 0) {
    absl::StrAppend(&text, ", by signal ", attempt.outcome().signal());
  } else if (attempt.has_outcome() && attempt.outcome().kind() != v1::Outcome::GONE) {
    absl::StrAppend(&text, ", exit status ", attempt.outcome().exit_code());
  }
  if (!attempt.precision_reason().empty()) {
    absl::StrAppend(&text, ", precision: ", Printable(attempt.precision_reason()));
  }
  return text.empty() ? "" : DetailLine("", std::string(absl::StripPrefix(text, ", ")));
}

// Returns lines that only the wide format shows: queue, priority, labels, steps and samples per second, learning rate.
std::string WideLines(const v1::Job& job) {
  const v1::JobSpec& spec = job.spec();
  const std::map<std::string, std::string> labels(spec.labels().begin(), spec.labels().end());
  std::string text = DetailLine("queue", absl::StrCat(spec.queue().empty() ? "default" : Printable(spec.queue()),
                                                      ", priority ", spec.priority()));
  if (!labels.empty()) {
    text += DetailLine("labels", Printable(absl::StrJoin(labels, " ", absl::PairFormatter("="))));
  }
  const v1::Progress& progress = job.progress();
  if (progress.step() > 0) {
    const std::string steps = FormatNumber(progress.steps_per_second()) + " steps/s";
    text += DetailLine(
        "pace", HasLastStep(progress)
                    ? absl::StrCat(steps, ", ", FormatNumber(progress.samples_per_second()), " samples/s, waited ",
                                   FormatNumber(progress.data_wait_seconds()), "s in total for data")
                    : steps);
    text += HasLastStep(progress)
                ? DetailLine("rate", absl::StrCat("learning rate ", FormatNumber(progress.learning_rate()),
                                                  ", gradient norm ", FormatNumber(progress.grad_norm())))
                : "";
  }
  if (const std::optional<TraceContext> trace = ParseTraceparent(job.traceparent()); trace.has_value()) {
    text += DetailLine("trace", TraceIdOf(*trace));
  }
  return text + DetailLine("etag", Printable(job.etag()));
}

std::string CheckpointLine(const v1::Checkpoint& checkpoint, const JobTextOptions& options) {
  std::string text = absl::StrCat("step ", FormatCount(checkpoint.step()), ", ", FormatBytes(checkpoint.size_bytes()));
  if (options.wide) {
    absl::StrAppend(&text, ", attempt ", checkpoint.attempt(), ", ", Printable(checkpoint.path()),
                    checkpoint.local() ? " on " + Printable(checkpoint.worker()) : "", ", state ",
                    checkpoint.state_hash().empty() ? kNothing : Printable(checkpoint.state_hash()));
  }
  return DetailLine("checkpoint", text);
}

}  // namespace

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

bool HasStoppedEarly(const v1::Job& job) {
  return job.state() == v1::Job::SUCCEEDED && job.spec().train().has_early_stopping() && job.attempts_size() > 0 &&
         job.attempts().rbegin()->has_outcome() && job.attempts().rbegin()->outcome().last_step() < TotalSteps(job);
}

std::string LatestPrecision(const v1::Job& job) {
  if (job.attempts_size() > 0 && !job.attempts().rbegin()->precision().empty()) {
    return Printable(job.attempts().rbegin()->precision());
  }
  const v1::PrecisionPolicy& policy = job.spec().precision();
  const std::string text = policy.preset().empty() ? absl::StrJoin(policy.prefer(), ">") : policy.preset();
  return text.empty() ? kNothing : Printable(text);
}

std::string LatestWorker(const v1::Job& job) {
  return job.attempts().empty() ? "" : Printable(job.attempts().rbegin()->worker());
}

std::string ReasonWord(const v1::Job& job) {
  return job.has_pending() ? EnumText(job.pending().reason()) : ReasonText(job.reason());
}

std::string StateText(v1::Job::State state, const Palette& palette) {
  const std::string name = EnumText(state);
  switch (state) {
    case v1::Job::SUCCEEDED:
    case v1::Job::RUNNING:
      return palette.Green(name);
    case v1::Job::FAILED:
      return palette.Red(name);
    case v1::Job::CANCELLED:
    case v1::Job::CANCELLING:
    case v1::Job::PAUSED:
    case v1::Job::PAUSING:
      return palette.Yellow(name);
    default:
      return name;
  }
}

std::vector<std::string> JobHeadings(bool wide) {
  std::vector<std::string> headings = {"ID", "NAME", "STATE", "STEP", "LOSS", "PRECISION", "AGE", "REASON"};
  if (wide) {
    headings.insert(headings.end(), {"WORKER", "TENANT", "PRIORITY", "SCALE", "SKIPPED", "PEAK MEMORY", "MESSAGE"});
  }
  return headings;
}

std::vector<std::string> JobRow(const v1::Job& job, bool wide, const JobTextOptions& options) {
  const v1::Progress& progress = job.progress();
  const int64_t total = TotalSteps(job);
  std::vector<std::string> row = {Printable(job.id()),
                                  Printable(job.spec().name()),
                                  StateText(job.state(), options.palette),
                                  absl::StrCat(progress.step(), total > 0 ? absl::StrCat("/", total) : ""),
                                  progress.has_loss() ? FormatNumber(progress.loss()) : kNothing,
                                  LatestPrecision(job),
                                  FormatSpan(options.now - TimeOf(job.create_time())),
                                  ReasonWord(job)};
  if (wide) {
    const bool stepped = progress.step() > 0 && progress.has_loss();
    row.push_back(job.attempts_size() > 0 ? LatestWorker(job) : kNothing);
    row.push_back(OrNothing(job.tenant()));
    row.push_back(absl::StrCat(job.spec().priority()));
    row.push_back(stepped ? FormatNumber(progress.loss_scale()) : kNothing);
    row.push_back(stepped ? absl::StrCat(progress.skipped_steps()) : kNothing);
    row.push_back(stepped ? FormatBytes(progress.memory_peak_bytes()) : kNothing);
    row.push_back(Printable(job.has_pending() ? job.pending().message() : job.message()));
  }
  return row;
}

std::vector<std::string> JobCsvHeadings() {
  return {"id",
          "name",
          "state",
          "reason",
          "message",
          "step",
          "total_steps",
          "loss",
          "precision",
          "worker",
          "loss_scale",
          "skipped_steps",
          "peak_memory_bytes",
          "queue",
          "priority",
          "create_time",
          "start_time",
          "end_time",
          "tenant"};
}

std::vector<std::string> JobCsvRow(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  const int64_t total = TotalSteps(job);
  const bool stepped = progress.step() > 0 && progress.has_loss();
  const auto unless_nothing = [](std::string text) { return text == kNothing ? "" : std::move(text); };
  return {Printable(job.id()),
          Printable(job.spec().name()),
          EnumText(job.state()),
          unless_nothing(ReasonWord(job)),
          Printable(job.has_pending() ? job.pending().message() : job.message()),
          absl::StrCat(progress.step()),
          total > 0 ? absl::StrCat(total) : "",
          progress.has_loss() ? CsvNumber(progress.loss()) : "",
          unless_nothing(LatestPrecision(job)),
          LatestWorker(job),
          stepped ? CsvNumber(progress.loss_scale()) : "",
          stepped ? absl::StrCat(progress.skipped_steps()) : "",
          stepped ? absl::StrCat(progress.memory_peak_bytes()) : "",
          Printable(job.spec().queue()),
          absl::StrCat(job.spec().priority()),
          CsvTime(job.has_create_time(), job.create_time()),
          CsvTime(job.has_start_time(), job.start_time()),
          CsvTime(job.has_end_time(), job.end_time()),
          Printable(job.tenant())};
}

std::string RenderJob(const v1::Job& job, const JobTextOptions& options) {
  const std::string reason = ReasonText(job.reason());
  std::string text =
      DetailLine("job", absl::StrCat(Printable(job.id()), "  ", options.palette.Bold(Printable(job.spec().name()))));
  if (!job.cloned_from().empty()) {
    text += DetailLine("clone of", Printable(job.cloned_from()));
  }
  text += DetailLine(
      "state", absl::StrCat(StateText(job.state(), options.palette), reason == kNothing ? "" : " (" + reason + ")",
                            job.message().empty() ? "" : ": " + Printable(job.message())));
  if (job.has_pending()) {
    text +=
        DetailLine("waits", absl::StrCat(EnumText(job.pending().reason()), ": ", Printable(job.pending().message())));
  }
  if (!job.owner().empty()) {
    text += DetailLine("owner", Printable(job.owner()));
  }
  if (!job.tenant().empty() && job.tenant() != kDefaultTenant) {
    text += DetailLine("tenant", Printable(job.tenant()));
  }
  text += TimesLine(job, options) + DetailLine("precision", LatestPrecision(job)) + ProgressLines(job) +
          (options.wide ? WideLines(job) : DetailLine("priority", absl::StrCat(job.spec().priority())));
  for (const v1::Attempt& attempt : job.attempts()) {
    text += AttemptLine(attempt) + (options.wide ? WideAttemptLine(attempt, options) : "");
  }
  if (job.num_retries_used() > 0) {
    text += DetailLine("retries", absl::StrCat(job.num_retries_used(), " of ", job.spec().max_retries(), " used"));
  }
  text += FinalLines(job);
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    text += CheckpointLine(checkpoint, options);
  }
  const std::string kept = RenderRetention(job, options);
  return kept.empty() ? text : text + DetailLine("storage", kept);
}

std::string RenderRetention(const v1::Job& job, const JobTextOptions& options) {
  if (!job.has_retention()) {
    return "";
  }
  const v1::Retention& retention = job.retention();
  const auto kept = [&options](const char* what, bool is_limited, const google::protobuf::Duration& age, bool has_time,
                               const google::protobuf::Timestamp& time) {
    if (has_time) {
      return absl::StrCat(what, " are kept until ", FormatTimestamp(TimeOf(time), options.zone));
    }
    return is_limited ? absl::StrCat(what, " are kept for ", AgeText(age), " after the job's end")
                      : absl::StrCat(what, " are kept until they are deleted");
  };
  const std::string history = job.history_deleted()
                                  ? "points, events and logs were deleted because of their age"
                                  : kept("points, events and logs", retention.has_history(), retention.history(),
                                         retention.has_history_delete_time(), retention.history_delete_time());
  return absl::StrCat(history, "; ",
                      kept("checkpoints", retention.has_checkpoints(), retention.checkpoints(),
                           retention.has_checkpoints_delete_time(), retention.checkpoints_delete_time()));
}

}  // namespace ampd::client
