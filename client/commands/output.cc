#include "client/commands/output.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>
#include <yaml-cpp/yaml.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/table.h"
#include "client/render/watch_screen.h"

namespace ampd::client {
namespace {

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

void UseBlockStyle(YAML::Node node) {
  node.SetStyle(YAML::EmitterStyle::Block);
  for (auto item : node) {
    UseBlockStyle(node.IsMap() ? item.second : YAML::Node(item));
  }
}

// "RUNNING" alone, or with why: "FAILED (OUT_OF_MEMORY)".
std::string StateAndReason(const v1::Job& job) {
  const bool plain = job.reason() == v1::REASON_UNSPECIFIED || job.reason() == v1::SUCCEEDED_NORMALLY;
  return absl::StrCat(v1::Job::State_Name(job.state()),
                      plain ? "" : absl::StrCat(" (", v1::Reason_Name(job.reason()), ")"));
}

std::string StepText(const v1::Progress& progress) {
  return absl::StrCat(progress.step(), progress.total_steps() > 0 ? absl::StrCat("/", progress.total_steps()) : "");
}

std::string LatestPrecision(const v1::Job& job) {
  if (job.attempts_size() > 0 && !job.attempts().rbegin()->precision().empty()) {
    return job.attempts().rbegin()->precision();
  }
  const std::string& preset = job.spec().precision().preset();
  return preset.empty() ? absl::StrJoin(job.spec().precision().prefer(), ">") : preset;
}

std::vector<std::string> JobRow(const Session& session, const v1::Job& job, bool wide) {
  std::vector<std::string> row = {job.id(),
                                  Printable(job.spec().name()),
                                  StateText(job.state(), session.palette()),
                                  StepText(job.progress()),
                                  FormatNumber(job.progress().loss()),
                                  Printable(LatestPrecision(job)),
                                  FormatSpan(absl::Now() - TimeOf(job.create_time()))};
  if (wide) {
    row.push_back(job.reason() == v1::REASON_UNSPECIFIED ? "-" : v1::Reason_Name(job.reason()));
    row.push_back(job.attempts_size() > 0 ? Printable(job.attempts().rbegin()->worker()) : "-");
    row.push_back(FormatNumber(job.progress().loss_scale()));
    row.push_back(absl::StrCat(job.progress().skipped_steps()));
    row.push_back(FormatBytes(job.progress().memory_peak_bytes()));
    row.push_back(Printable(job.message()));
  }
  return row;
}

template <typename Message>
bool PrintList(const Session& session, const std::vector<Message>& messages) {
  const OutputFormat format = session.options().output;
  if (format == OutputFormat::kJson) {
    std::vector<std::string> items;
    for (const Message& message : messages) {
      items.push_back(ToJson(message, false));
    }
    Print(absl::StrCat("[", absl::StrJoin(items, ",\n"), "]\n"));
    return true;
  }
  for (const Message& message : messages) {
    if (format == OutputFormat::kJsonLines) {
      Print(ToJson(message, false) + "\n");
    } else if (format == OutputFormat::kYaml) {
      Print("---\n" + ToYaml(message));
    }
  }
  return format == OutputFormat::kJsonLines || format == OutputFormat::kYaml;
}

std::string AttemptLine(const v1::Attempt& attempt) {
  std::string line = absl::StrCat("  ", attempt.number(), "  ", v1::Attempt::State_Name(attempt.state()), " on ",
                                  Printable(attempt.worker()), " ", absl::StrJoin(attempt.devices(), ","), "  ",
                                  attempt.precision(), attempt.emulated() ? " (emulated)" : "");
  if (attempt.from_step() > 0) {
    absl::StrAppend(&line, "  from step ", attempt.from_step());
  }
  if (attempt.has_outcome()) {
    absl::StrAppend(&line, "  ", v1::Outcome::Kind_Name(attempt.outcome().kind()), " ",
                    v1::Reason_Name(attempt.outcome().reason()), " at step ", attempt.outcome().last_step());
    if (!attempt.outcome().message().empty()) {
      absl::StrAppend(&line, ": ", Printable(attempt.outcome().message()));
    }
  }
  return line + "\n";
}

std::string FinalLines(const v1::FinalMetrics& metrics) {
  std::string text = absl::StrCat("final     train loss ", FormatNumber(metrics.train_loss()));
  if (metrics.has_eval_accuracy()) {
    absl::StrAppend(&text, "  eval loss ", FormatNumber(metrics.eval_loss()), "  accuracy ",
                    FormatNumber(metrics.eval_accuracy()));
  }
  return absl::StrCat(text, "\n          ", FormatNumber(metrics.steps_per_second()), " steps/s  peak memory ",
                      FormatBytes(metrics.peak_memory_bytes()), "  loss scale ",
                      FormatNumber(metrics.final_loss_scale()), "  skipped ", metrics.skipped_steps(), "\n");
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) {
    return "{}";
  }
  return json;
}

std::string ToYaml(const google::protobuf::Message& message) {
  YAML::Node node = YAML::Load(ToJson(message, false));
  UseBlockStyle(node);
  YAML::Emitter emitter;
  emitter << node;
  return std::string(emitter.c_str()) + "\n";
}

void PrintJobs(const Session& session, const std::vector<v1::Job>& jobs) {
  const GlobalOptions& options = session.options();
  if (options.quiet || options.output == OutputFormat::kName) {
    for (const v1::Job& job : jobs) {
      Print(job.id() + "\n");
    }
    return;
  }
  if (PrintList(session, jobs)) {
    return;
  }
  const bool wide = options.output == OutputFormat::kWide;
  std::vector<std::string> heading = {"ID", "NAME", "STATE", "STEP", "LOSS", "PRECISION", "AGE"};
  if (wide) {
    heading.insert(heading.end(), {"REASON", "WORKER", "SCALE", "SKIPPED", "PEAK MEMORY", "MESSAGE"});
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::Job& job : jobs) {
    rows.push_back(JobRow(session, job, wide));
  }
  if (rows.empty()) {
    session.Note("no jobs; submit one with: ampctl job submit -f job.yaml");
    return;
  }
  Print(RenderTable(heading, rows, !options.no_headers));
}

void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers) {
  const GlobalOptions& options = session.options();
  if (options.quiet || options.output == OutputFormat::kName) {
    for (const v1::Worker& worker : workers) {
      Print(worker.name() + "\n");
    }
    return;
  }
  if (PrintList(session, workers)) {
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::Worker& worker : workers) {
    std::vector<std::string> devices;
    for (const v1::Device& device : worker.devices()) {
      devices.push_back(absl::StrCat(Printable(device.id()), " (", Printable(device.name()), ", ",
                                     FormatBytes(device.memory_free_bytes()), " free of ",
                                     FormatBytes(device.memory_total_bytes()), ")"));
    }
    rows.push_back({Printable(worker.name()), v1::Worker::State_Name(worker.state()),
                    absl::StrCat(worker.job_ids_size()), FormatSpan(absl::Now() - TimeOf(worker.last_report_time())),
                    absl::StrJoin(devices, ", ")});
  }
  if (rows.empty()) {
    session.Note("no workers; start one with: ampd-worker --server ADDRESS, or ampctl dev");
    return;
  }
  Print(RenderTable({"NAME", "STATE", "JOBS", "LAST REPORT", "DEVICES"}, rows, !options.no_headers));
}

void PrintJob(const Session& session, const v1::Job& job) {
  if (session.options().quiet || session.options().output == OutputFormat::kName) {
    Print(job.id() + "\n");
    return;
  }
  if (PrintStructured(session, job)) {
    return;
  }
  const v1::Progress& progress = job.progress();
  std::string text = absl::StrCat(
      "job       ", job.id(), "  ", session.palette().Bold(Printable(job.spec().name())), "\nstate     ",
      StateAndReason(job), job.message().empty() ? "" : absl::StrCat(": ", Printable(job.message())), "\ncreated   ",
      google::protobuf::util::TimeUtil::ToString(job.create_time()), "\nprecision ", Printable(LatestPrecision(job)),
      "\nprogress  step ", StepText(progress), "  loss ", FormatNumber(progress.loss()), "  scale ",
      FormatNumber(progress.loss_scale()), "  skipped ", progress.skipped_steps(), "  memory ",
      FormatBytes(progress.memory_allocated_bytes()), " peak ", FormatBytes(progress.memory_peak_bytes()), "\n");
  absl::StrAppend(&text, "attempts  ", job.num_attempts(), ", ", job.num_retries_used(), " retries used\n");
  for (const v1::Attempt& attempt : job.attempts()) {
    text += AttemptLine(attempt);
  }
  if (job.attempts_size() > 0 && job.attempts().rbegin()->outcome().has_final_metrics()) {
    text += FinalLines(job.attempts().rbegin()->outcome().final_metrics());
  }
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    absl::StrAppend(&text, "checkpoint  step ", checkpoint.step(), "  ", FormatBytes(checkpoint.size_bytes()), "\n");
  }
  Print(text);
}

bool PrintStructured(const Session& session, const google::protobuf::Message& message) {
  switch (session.options().output) {
    case OutputFormat::kJson:
      Print(ToJson(message, true));
      return true;
    case OutputFormat::kJsonLines:
      Print(ToJson(message, false) + "\n");
      return true;
    case OutputFormat::kYaml:
      Print(ToYaml(message));
      return true;
    default:
      return false;
  }
}

}  // namespace ampd::client
