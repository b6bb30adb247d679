#include "client/commands/output.h"

#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/job_text.h"
#include "client/render/table.h"

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

JobTextOptions TextOptions(const Session& session) { return {absl::Now(), absl::LocalTimeZone(), session.palette()}; }

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
  std::vector<std::vector<std::string>> rows;
  for (const v1::Job& job : jobs) {
    rows.push_back(JobRow(job, wide, TextOptions(session)));
  }
  if (rows.empty()) {
    session.Note("no jobs; submit one with: ampctl job submit -f job.yaml");
    return;
  }
  Print(RenderTable(JobHeadings(wide), rows, !options.no_headers));
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
    // Until a worker has reported to this life of the server, its free memory is not known either.
    const bool has_reported = worker.last_report_time().seconds() > 0;
    std::vector<std::string> devices;
    for (const v1::Device& device : worker.devices()) {
      const std::string free = has_reported ? FormatBytes(device.memory_free_bytes()) + " free of " : "";
      devices.push_back(absl::StrCat(Printable(device.id()), " (", Printable(device.name()), ", ", free,
                                     FormatBytes(device.memory_total_bytes()), ")"));
    }
    rows.push_back({Printable(worker.name()), v1::Worker::State_Name(worker.state()),
                    absl::StrCat(worker.job_ids_size()),
                    has_reported ? FormatSpan(absl::Now() - TimeOf(worker.last_report_time())) + " ago" : "not yet",
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
  Print(RenderJob(job, TextOptions(session)));
  if (const std::string next = NextCommands(job); !next.empty()) {
    session.Note(next);
  }
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
