#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/auth_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"
#include "client/render/job_text.h"
#include "client/terminal/list_printer.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Formats a message as JSON, on one line or indented, or as YAML. JSON has protobuf's mapping (camelCase, 64-bit
// numbers as strings); YAML has snake_case names (client/render/yaml_text.h).
std::string ToJson(const google::protobuf::Message& message, bool indented);
std::string ToYaml(const google::protobuf::Message& message);

// Returns how to write texts about jobs and checkpoints in this session: the current time (for ages), the local time
// zone, the colours of stdout, and whether to add the details of -o wide.
JobTextOptions TextOptionsOf(const Session& session);

// Prints rows as CSV, without their headings if --no-headers is given.
void PrintCsv(const Session& session, const Cells& headings, const std::vector<Cells>& rows);

// Prints a table, without its headings if --no-headers is given.
void PrintTable(const Session& session, const std::vector<std::string>& headings,
                const std::vector<std::vector<std::string>>& rows);

// Returns an item of a list in the format of -o, for a ListPrinter.
ItemText TextOf(const Session& session, const v1::Job& job);
ItemText TextOf(const Session& session, const v1::Worker& worker);
ItemText TextOf(const Session& session, const v1::Checkpoint& checkpoint);
ItemText TextOf(const Session& session, const v1::Artifact& artifact);
ItemText TextOf(const Session& session, const v1::Token& token);
ItemText TextOf(const Session& session, const v1::AuditEntry& entry);

// Return the headings of a list in the format of -o.
Cells JobListHeadings(const Session& session);
Cells WorkerListHeadings(const Session& session);

// Print a list in the format of -o: a JSON array, one line or one YAML document per item, CSV lines, names, or a table.
void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers);
void PrintCheckpoints(const Session& session, const std::vector<v1::Checkpoint>& checkpoints);

// Prints a list of artifacts. `job` is the job whose artifacts (samples, profiles and predictions) are listed; empty if
// all artifacts are listed.
void PrintArtifacts(const Session& session, const std::vector<v1::Artifact>& artifacts, const std::string& job);

// Returns " in tenant 'vision'" if the run works in one tenant only, for a message; otherwise "". REQUIRES:
// session.Client() was called.
std::string InTenant(const Session& session);

// Prints that a list has no `things`, such as "jobs", and either `advice` or, in a single tenant, how to list those of
// all tenants. `words` are those of the command that lists them: "job list". REQUIRES: session.Client() was called.
void NoteEmptyList(const Session& session, const std::string& things, const std::string& advice,
                   const std::string& words);

// Returns the command with these words, such as "job list", for all tenants.
std::string InAllTenants(const Session& session, const std::string& words);

// Returns the command with these words, such as "job submit -f FILE", which creates something. A new thing belongs to
// one tenant, so this function leaves out --tenant '*'.
std::string CommandToCreate(const Session& session, const std::string& words);

void PrintTokens(const Session& session, const std::vector<v1::Token>& tokens);
void PrintAuditEntries(const Session& session, const std::vector<v1::AuditEntry>& entries);

// Prints everything about one job.
void PrintJob(const Session& session, const v1::Job& job);

// Prints one message as json, jsonl or yaml. Returns false for other formats, whose output depends on the kind of
// message.
bool PrintStructured(const Session& session, const google::protobuf::Message& message);

// A named value. PrintStructured prints a sequence of these, in the order of the sequence, for data that is not in a
// proto message. Names are in camelCase; in YAML they are printed in snake_case. A value may be a proto message, which
// it points to and does not own.
struct PlainField;
using PlainFields = std::vector<PlainField>;
using PlainValue =
    std::variant<std::string, bool, int64_t, const google::protobuf::Message*, PlainFields, std::vector<PlainFields>>;
struct PlainField {
  std::string name;
  PlainValue value;
};
bool PrintStructured(const Session& session, const PlainFields& fields);
bool PrintStructured(const Session& session, const std::vector<PlainFields>& list);

// A value that the caller has formatted.
struct StructuredText {
  std::string indented_json;
  std::string json;  // on one line
  std::string yaml;
};
bool PrintStructured(const Session& session, const StructuredText& text);

// Prints the result of a command for each of its jobs, as soon as Add gets it: a line of text, or the job in the format
// of -o. With -o json, the result for one job is a JSON object. The results for several jobs are one JSON array, which
// the destructor prints. Single-threaded.
class JobResults {
 public:
  JobResults(const Session* session, size_t num_asked) : session_(session), num_asked_(num_asked) {}
  ~JobResults();
  JobResults(const JobResults&) = delete;
  JobResults& operator=(const JobResults&) = delete;
  // Prints one result. `text` follows the job's id, unless the format prints the whole job or only its id (-q, -o
  // name).
  void Add(const v1::Job& job, const std::string& text);

 private:
  const Session* const session_;
  const size_t num_asked_;
  std::vector<v1::Job> held_;
};

}  // namespace ampd::client
