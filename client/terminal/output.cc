#include "client/terminal/output.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/api/tenants.h"
#include "base/text.h"
#include "client/render/artifact_text.h"
#include "client/render/checkpoint_text.h"
#include "client/render/job_text.h"
#include "client/render/shell_word.h"
#include "client/render/table.h"
#include "client/render/token_text.h"
#include "client/render/worker_text.h"
#include "client/render/yaml_text.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

void Print(const std::string& text) { WriteText(text); }

// One item of a list, as one line of JSON and as YAML.
struct ListItem {
  std::string json;
  std::string yaml;
};

// Prints items as a JSON array, as JSON lines, or as YAML documents. Returns false if -o asks for another format.
bool PrintItems(const Session& session, const std::vector<ListItem>& items) {
  const OutputFormat format = session.options().output;
  if (format == OutputFormat::kJson) {
    const auto json = [](std::string* out, const ListItem& item) { out->append(item.json); };
    Print(absl::StrCat("[", absl::StrJoin(items, ",\n", json), "]\n"));
    return true;
  }
  for (const ListItem& item : items) {
    if (format == OutputFormat::kJsonLines) {
      Print(item.json + "\n");
    } else if (format == OutputFormat::kYaml) {
      Print("---\n" + item.yaml);
    }
  }
  return format == OutputFormat::kJsonLines || format == OutputFormat::kYaml;
}

template <typename Message>
bool PrintList(const Session& session, const std::vector<Message>& messages) {
  std::vector<ListItem> items;
  for (const Message& message : messages) {
    items.push_back({ToJson(message, false), ToYaml(message)});
  }
  return PrintItems(session, items);
}

// Returns what a list prints for one message. With -o name or -q, this is `name`; otherwise it is the message in the
// format of -o. `csv` and `table` are functions that return the message's rows for -o csv and for tables.
template <typename Csv, typename Table>
ItemText TextInFormat(const Session& session, const google::protobuf::Message& message, const std::string& name,
                      const Csv& csv, const Table& table) {
  switch (session.names_only() ? OutputFormat::kName : session.options().output) {
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      return {.rows = table(), .text = ""};
    case OutputFormat::kCsv:
      return {.rows = csv(), .text = ""};
    case OutputFormat::kYaml:
      return {.rows = {}, .text = ToYaml(message)};
    case OutputFormat::kName:
      return {.rows = {}, .text = name};
    case OutputFormat::kJson:
    case OutputFormat::kJsonLines:
    case OutputFormat::kMarkdown:
    case OutputFormat::kHtml:
      break;  // Lists do not have the last two formats.
  }
  return {.rows = {}, .text = ToJson(message, /*indented=*/false)};
}

template <typename Message>
void PrintMessages(const Session& session, const Cells& headings, const std::vector<Message>& messages) {
  std::vector<ItemText> texts;
  for (const Message& message : messages) {
    texts.push_back(TextOf(session, message));
  }
  ListPrinter printer(&session, headings);
  printer.Add(texts);
  printer.End();
}

std::string JsonOf(const PlainFields& fields, bool indented);

std::string JsonTextOf(const std::string& text) {
  google::protobuf::Value json;
  json.set_string_value(ValidUtf8(text));
  return ToJson(json, false);
}

// Returns the value as one line of JSON. A 64-bit number becomes a text, as in protobuf's JSON mapping.
std::string JsonOf(const PlainValue& value) {
  struct Writer {
    std::string operator()(const std::string& text) const { return JsonTextOf(text); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return absl::StrCat("\"", number, "\""); }
    std::string operator()(const google::protobuf::Message* message) const { return ToJson(*message, false); }
    std::string operator()(const PlainFields& fields) const { return JsonOf(fields, /*indented=*/false); }
    std::string operator()(const std::vector<PlainFields>& list) const {
      const auto item = [](std::string* out, const PlainFields& fields) {
        out->append(JsonOf(fields, /*indented=*/false));
      };
      return absl::StrCat("[", absl::StrJoin(list, ",", item), "]");
    }
  };
  return std::visit(Writer(), value);
}

std::string JsonOf(const PlainFields& fields, bool indented) {
  std::vector<std::string> texts;
  for (const PlainField& field : fields) {
    texts.push_back(absl::StrCat(JsonTextOf(field.name), indented ? ": " : ":", JsonOf(field.value)));
  }
  return indented ? absl::StrCat("{\n ", absl::StrJoin(texts, ",\n "), "\n}\n")
                  : absl::StrCat("{", absl::StrJoin(texts, ","), "}");
}

YamlValue YamlOf(const PlainFields& fields);

YamlValue YamlOf(const PlainValue& value) {
  struct Writer {
    YamlValue operator()(const std::string& text) const { return YamlTextOf(text); }
    YamlValue operator()(bool flag) const { return YamlFlagOf(flag); }
    YamlValue operator()(int64_t number) const { return YamlNumberOf(number); }
    YamlValue operator()(const google::protobuf::Message* message) const { return ampd::client::YamlOf(*message); }
    YamlValue operator()(const PlainFields& fields) const { return YamlOf(fields); }
    YamlValue operator()(const std::vector<PlainFields>& list) const {
      YamlValue::List items;
      for (const PlainFields& fields : list) {
        items.push_back(YamlOf(fields));
      }
      return {std::move(items)};
    }
  };
  return std::visit(Writer(), value);
}

YamlValue YamlOf(const PlainFields& fields) {
  YamlValue::Mapping mapping;
  for (const PlainField& field : fields) {
    mapping.push_back({SnakeCase(field.name), YamlOf(field.value)});
  }
  return {std::move(mapping)};
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

std::string ToYaml(const google::protobuf::Message& message) { return WriteYaml(YamlOf(message)); }

JobTextOptions TextOptionsOf(const Session& session) {
  return {absl::Now(), absl::LocalTimeZone(), session.palette(), session.wide()};
}

void PrintTable(const Session& session, const std::vector<std::string>& headings,
                const std::vector<std::vector<std::string>>& rows) {
  WriteColoured(RenderTable(headings, rows, !session.options().no_headers, OutputWidth()));
}

Cells JobListHeadings(const Session& session) {
  return session.options().output == OutputFormat::kCsv ? JobCsvHeadings() : JobHeadings(session.wide());
}

Cells WorkerListHeadings(const Session& session) {
  return session.options().output == OutputFormat::kCsv ? WorkerCsvHeadings() : WorkerHeadings(session.wide());
}

ItemText TextOf(const Session& session, const v1::Job& job) {
  const auto csv = [&job] { return std::vector<Cells>{JobCsvRow(job)}; };
  const auto table = [&] { return std::vector<Cells>{JobRow(job, session.wide(), TextOptionsOf(session))}; };
  return TextInFormat(session, job, Printable(job.id()), csv, table);
}

ItemText TextOf(const Session& session, const v1::Worker& worker) {
  const auto csv = [&worker] { return WorkerCsvRows(worker); };
  const auto table = [&] { return WorkerRows(worker, session.wide(), absl::Now()); };
  return TextInFormat(session, worker, Printable(worker.name()), csv, table);
}

ItemText TextOf(const Session& session, const v1::Checkpoint& checkpoint) {
  const auto csv = [&checkpoint] { return std::vector<Cells>{CheckpointCsvRow(checkpoint)}; };
  const auto table = [&] {
    return std::vector<Cells>{CheckpointRow(checkpoint, session.wide(), TextOptionsOf(session))};
  };
  return TextInFormat(session, checkpoint, Printable(checkpoint.path()), csv, table);
}

ItemText TextOf(const Session& session, const v1::Artifact& artifact) {
  const auto csv = [&artifact] { return std::vector<Cells>{ArtifactCsvRow(artifact)}; };
  const auto table = [&] { return std::vector<Cells>{ArtifactRow(artifact, session.wide(), absl::Now())}; };
  return TextInFormat(session, artifact, Printable(artifact.name()), csv, table);
}

ItemText TextOf(const Session& session, const v1::Token& token) {
  const auto csv = [&token] { return std::vector<Cells>{TokenCsvRow(token)}; };
  const auto table = [&] { return std::vector<Cells>{TokenRow(token, session.wide(), absl::Now())}; };
  return TextInFormat(session, token, Printable(token.name()), csv, table);
}

ItemText TextOf(const Session& session, const v1::AuditEntry& entry) {
  const auto csv = [&entry] { return std::vector<Cells>{AuditCsvRow(entry)}; };
  const auto table = [&] { return std::vector<Cells>{AuditRow(entry, session.wide(), absl::LocalTimeZone())}; };
  return TextInFormat(session, entry, Printable(entry.method()), csv, table);
}

void PrintAuditEntries(const Session& session, const std::vector<v1::AuditEntry>& entries) {
  const bool is_csv = session.options().output == OutputFormat::kCsv;
  PrintMessages(session, is_csv ? AuditCsvHeadings() : AuditHeadings(session.wide()), entries);
  if (session.for_people() && entries.empty()) {
    session.Note("the audit log has no such entries");
  }
}

std::string InTenant(const Session& session) {
  const std::string tenant = session.Tenant().value_or("");
  return tenant.empty() || tenant == kAllTenants ? "" : absl::StrCat(" in tenant '", Printable(tenant), "'");
}

void NoteEmptyList(const Session& session, const std::string& things, const std::string& advice,
                   const std::string& words) {
  const std::string in_tenant = InTenant(session);
  session.Note(in_tenant.empty() ? absl::StrCat("no ", things, "; ", advice)
                                 : absl::StrCat("no ", things, in_tenant,
                                                "; to list those of all your tenants: ", InAllTenants(session, words)));
}

std::string InAllTenants(const Session& session, const std::string& words) {
  return absl::StrCat(session.Program(/*keeps_tenant=*/false), " ", words, " --tenant '*'");
}

std::string CommandToCreate(const Session& session, const std::string& words) {
  return absl::StrCat(session.Program(/*keeps_tenant=*/session.options().tenant != "*"), " ", words);
}

void PrintTokens(const Session& session, const std::vector<v1::Token>& tokens) {
  const bool is_csv = session.options().output == OutputFormat::kCsv;
  PrintMessages(session, is_csv ? TokenCsvHeadings() : TokenHeadings(session.wide()), tokens);
  if (session.for_people() && tokens.empty()) {
    NoteEmptyList(session, "tokens",
                  "create one with: " + CommandToCreate(session, "auth token create NAME --role ROLE"),
                  "auth token list");
  }
}

void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers) {
  PrintMessages(session, WorkerListHeadings(session), workers);
  if (!session.for_people()) {
    return;
  }
  if (workers.empty()) {
    NoteEmptyList(session, "workers", "start one with: ampd-worker --server ADDRESS, or ampctl dev", "worker list");
  }
  for (const v1::Worker& worker : workers) {
    if (!worker.message().empty()) {
      session.Note(absl::StrCat(Printable(worker.name()), ": ", Printable(worker.message())));
    }
  }
}

void PrintCheckpoints(const Session& session, const std::vector<v1::Checkpoint>& checkpoints) {
  const bool is_csv = session.options().output == OutputFormat::kCsv;
  PrintMessages(session, is_csv ? CheckpointCsvHeadings() : CheckpointHeadings(session.wide()), checkpoints);
  if (checkpoints.empty() && session.for_people()) {
    session.Note("no checkpoints are kept");
  }
}

void PrintArtifacts(const Session& session, const std::vector<v1::Artifact>& artifacts, const std::string& job) {
  const bool is_csv = session.options().output == OutputFormat::kCsv;
  PrintMessages(session, is_csv ? ArtifactCsvHeadings() : ArtifactHeadings(session.wide()), artifacts);
  if (artifacts.empty() && session.for_people()) {
    if (job.empty()) {
      NoteEmptyList(session, "artifacts", "upload a file with: " + CommandToCreate(session, "artifact upload FILE"),
                    "artifact list");
      return;
    }
    session.Note(absl::StrCat("job ", Printable(job),
                              " has no files yet: samples, profiles and predictions would be listed here, and its "
                              "checkpoints are in: ",
                              session.Command("checkpoint list " + ShellWord(Printable(job)))));
  }
}

void PrintCsv(const Session& session, const Cells& headings, const std::vector<Cells>& rows) {
  ListPrinter printer(&session, headings);
  printer.Add({{.rows = rows, .text = ""}});
  printer.End();
}

void PrintJob(const Session& session, const v1::Job& job) {
  if (session.names_only()) {
    Print(Printable(job.id()) + "\n");
    return;
  }
  if (PrintStructured(session, job)) {
    return;
  }
  WriteColoured(RenderJob(job, TextOptionsOf(session)));
  if (const std::string next = NextCommands(job, session.Program()); !next.empty()) {
    session.Note(next);
  }
}

bool PrintStructured(const Session& session, const StructuredText& text) {
  switch (session.options().output) {
    case OutputFormat::kJson:
      Print(text.indented_json);
      return true;
    case OutputFormat::kJsonLines:
      Print(text.json + "\n");
      return true;
    case OutputFormat::kYaml:
      Print(text.yaml);
      return true;
    default:
      return false;
  }
}

bool PrintStructured(const Session& session, const google::protobuf::Message& message) {
  return PrintStructured(session, StructuredText{ToJson(message, true), ToJson(message, false), ToYaml(message)});
}

bool PrintStructured(const Session& session, const PlainFields& fields) {
  return PrintStructured(session,
                         StructuredText{JsonOf(fields, true), JsonOf(fields, false), WriteYaml(YamlOf(fields))});
}

bool PrintStructured(const Session& session, const std::vector<PlainFields>& list) {
  std::vector<ListItem> items;
  for (const PlainFields& fields : list) {
    items.push_back({JsonOf(fields, false), WriteYaml(YamlOf(fields))});
  }
  return PrintItems(session, items);
}

void JobResults::Add(const v1::Job& job, const std::string& text) {
  const OutputFormat format = session_->options().output;
  if (session_->names_only()) {
    Print(Printable(job.id()) + "\n");
  } else if (num_asked_ > 1 && format == OutputFormat::kJson) {
    held_.push_back(job);
  } else if (num_asked_ > 1 ? !PrintList(*session_, std::vector<v1::Job>{job}) : !PrintStructured(*session_, job)) {
    WriteProse(Printable(job.id()) + "  " + text + "\n");
  }
  FlushOutput();
}

JobResults::~JobResults() {
  const GlobalOptions& options = session_->options();
  if (num_asked_ > 1 && options.output == OutputFormat::kJson) {
    PrintList(*session_, held_);
  }
}

}  // namespace ampd::client
