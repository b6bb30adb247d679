#include "client/terminal/output.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/artifact_text.h"
#include "client/render/checkpoint_text.h"
#include "client/render/job_text.h"
#include "client/render/table.h"
#include "client/render/worker_text.h"

namespace ampd::client {
namespace {

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void UseBlockStyle(YAML::Node node) {
  node.SetStyle(YAML::EmitterStyle::Block);
  for (auto item : node) {
    UseBlockStyle(node.IsMap() ? item.second : YAML::Node(item));
  }
}

std::string YamlOf(const std::string& json) {
  YAML::Node node = YAML::Load(json);
  UseBlockStyle(node);
  YAML::Emitter emitter;
  emitter << node;
  return std::string(emitter.c_str()) + "\n";
}

// Prints items, each given as one line of JSON: as an array, as lines, or as YAML documents. Returns false if -o asks
// for another format.
bool PrintItems(const Session& session, const std::vector<std::string>& items) {
  const OutputFormat format = session.options().output;
  if (format == OutputFormat::kJson) {
    Print(absl::StrCat("[", absl::StrJoin(items, ",\n"), "]\n"));
    return true;
  }
  for (const std::string& item : items) {
    if (format == OutputFormat::kJsonLines) {
      Print(item + "\n");
    } else if (format == OutputFormat::kYaml) {
      Print("---\n" + YamlOf(item));
    }
  }
  return format == OutputFormat::kJsonLines || format == OutputFormat::kYaml;
}

template <typename Message>
bool PrintList(const Session& session, const std::vector<Message>& messages) {
  std::vector<std::string> items;
  for (const Message& message : messages) {
    items.push_back(ToJson(message, false));
  }
  return PrintItems(session, items);
}

std::string JsonOf(const JsonMembers& members, bool indented) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : members) {
    texts.push_back(absl::StrCat("\"", name, indented ? "\": " : "\":", value));
  }
  return indented ? absl::StrCat("{\n ", absl::StrJoin(texts, ",\n "), "\n}\n")
                  : absl::StrCat("{", absl::StrJoin(texts, ","), "}");
}

std::string JsonOf(const PlainFields& fields, bool indented) {
  JsonMembers members;
  for (const auto& [name, value] : fields) {
    google::protobuf::Value json;
    if (const bool* flag = std::get_if<bool>(&value)) {
      json.set_bool_value(*flag);
    } else {
      json.set_string_value(std::get<std::string>(value));
    }
    members.emplace_back(name, ToJson(json, false));
  }
  return JsonOf(members, indented);
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

std::string ToYaml(const google::protobuf::Message& message) { return YamlOf(ToJson(message, false)); }

JobTextOptions TextOptionsOf(const Session& session) {
  return {absl::Now(), absl::LocalTimeZone(), session.palette(), session.wide()};
}

void PrintTable(const Session& session, const std::vector<std::string>& headings,
                const std::vector<std::vector<std::string>>& rows) {
  Print(RenderTable(headings, rows, !session.options().no_headers));
}

void PrintJobs(const Session& session, const JobClient::JobList& list, const std::string& filter) {
  const std::vector<v1::Job>& jobs = list.jobs;
  if (session.names_only()) {
    for (const v1::Job& job : jobs) {
      Print(job.id() + "\n");
    }
    return;
  }
  if (session.options().output == OutputFormat::kJson && !list.next_page_token.empty()) {
    v1::ListJobsResponse part;
    part.mutable_jobs()->Add(jobs.begin(), jobs.end());
    part.set_total_size(list.total_size);
    part.set_next_page_token(list.next_page_token);
    Print(ToJson(part, /*indented=*/true));
    return;
  }
  if (PrintList(session, jobs)) {
    return;
  }
  const bool wide = session.wide();
  std::vector<std::vector<std::string>> rows;
  for (const v1::Job& job : jobs) {
    rows.push_back(JobRow(job, wide, TextOptionsOf(session)));
  }
  if (rows.empty()) {
    session.Note(filter.empty() ? "no jobs; submit one with: ampctl job submit -f job.yaml"
                                : "no job matches --filter '" + Printable(filter) + "'; to list all: ampctl job list");
    return;
  }
  PrintTable(session, JobHeadings(wide), rows);
}

void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers) {
  if (session.names_only()) {
    for (const v1::Worker& worker : workers) {
      Print(worker.name() + "\n");
    }
    return;
  }
  if (PrintList(session, workers)) {
    return;
  }
  if (workers.empty()) {
    session.Note("no workers; start one with: ampd-worker --server ADDRESS, or ampctl dev");
    return;
  }
  const bool wide = session.wide();
  std::vector<std::vector<std::string>> rows;
  for (const v1::Worker& worker : workers) {
    const auto of_worker = WorkerRows(worker, wide, absl::Now());
    rows.insert(rows.end(), of_worker.begin(), of_worker.end());
  }
  PrintTable(session, WorkerHeadings(wide), rows);
  for (const v1::Worker& worker : workers) {
    if (!worker.message().empty()) {
      session.Note(absl::StrCat(Printable(worker.name()), ": ", Printable(worker.message())));
    }
  }
}

void PrintCheckpoints(const Session& session, const std::vector<v1::Checkpoint>& checkpoints) {
  if (session.names_only()) {
    for (const v1::Checkpoint& checkpoint : checkpoints) {
      Print(Printable(checkpoint.path()) + "\n");
    }
    return;
  }
  if (PrintList(session, checkpoints)) {
    return;
  }
  if (checkpoints.empty()) {
    session.Note("no checkpoints are kept");
    return;
  }
  const bool wide = session.wide();
  std::vector<std::vector<std::string>> rows;
  for (const v1::Checkpoint& checkpoint : checkpoints) {
    rows.push_back(CheckpointRow(checkpoint, wide, TextOptionsOf(session)));
  }
  PrintTable(session, CheckpointHeadings(wide), rows);
}

void PrintArtifacts(const Session& session, const std::vector<v1::Artifact>& artifacts, const std::string& job) {
  if (session.names_only()) {
    for (const v1::Artifact& artifact : artifacts) {
      Print(Printable(artifact.name()) + "\n");
    }
    return;
  }
  if (PrintList(session, artifacts)) {
    return;
  }
  if (artifacts.empty()) {
    session.Note(job.empty() ? "no artifacts; upload a file with: ampctl artifact upload FILE"
                             : "job " + Printable(job) + " has no samples; to get some, set `sample` in the job file");
    return;
  }
  const bool wide = session.wide();
  std::vector<std::vector<std::string>> rows;
  for (const v1::Artifact& artifact : artifacts) {
    rows.push_back(ArtifactRow(artifact, wide, absl::Now()));
  }
  PrintTable(session, ArtifactHeadings(wide), rows);
}

void PrintJob(const Session& session, const v1::Job& job) {
  if (session.names_only()) {
    Print(job.id() + "\n");
    return;
  }
  if (PrintStructured(session, job)) {
    return;
  }
  Print(RenderJob(job, TextOptionsOf(session)));
  if (const std::string next = NextCommands(job); !next.empty()) {
    session.Note(next);
  }
}

bool PrintJson(const Session& session, const std::string& indented, const std::string& one_line) {
  switch (session.options().output) {
    case OutputFormat::kJson:
      Print(indented);
      return true;
    case OutputFormat::kJsonLines:
      Print(one_line + "\n");
      return true;
    case OutputFormat::kYaml:
      Print(YamlOf(one_line));
      return true;
    default:
      return false;
  }
}

bool PrintStructured(const Session& session, const google::protobuf::Message& message) {
  return PrintJson(session, ToJson(message, true), ToJson(message, false));
}

bool PrintStructured(const Session& session, const PlainFields& fields) {
  return PrintJson(session, JsonOf(fields, true), JsonOf(fields, false));
}

bool PrintStructured(const Session& session, const JsonMembers& members) {
  return PrintJson(session, JsonOf(members, true), JsonOf(members, false));
}

bool PrintStructured(const Session& session, const std::vector<PlainFields>& list) {
  std::vector<std::string> items;
  for (const PlainFields& fields : list) {
    items.push_back(JsonOf(fields, false));
  }
  return PrintItems(session, items);
}

void JobResults::Add(const v1::Job& job, const std::string& text) {
  const OutputFormat format = session_->options().output;
  if (session_->names_only()) {
    Print(job.id() + "\n");
  } else if (num_asked_ > 1 && format == OutputFormat::kJson) {
    held_.push_back(job);
  } else if (num_asked_ > 1 ? !PrintList(*session_, std::vector<v1::Job>{job}) : !PrintStructured(*session_, job)) {
    Print(job.id() + "  " + text + "\n");
  }
  std::fflush(stdout);
}

JobResults::~JobResults() {
  const GlobalOptions& options = session_->options();
  if (num_asked_ > 1 && options.output == OutputFormat::kJson && !options.quiet) {
    PrintList(*session_, held_);
  }
}

}  // namespace ampd::client
