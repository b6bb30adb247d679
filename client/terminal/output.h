#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"
#include "client/render/job_text.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Formats a message: as JSON on one line or indented (protobuf's mapping: camelCase, 64-bit numbers as strings), or as
// YAML.
std::string ToJson(const google::protobuf::Message& message, bool indented);
std::string ToYaml(const google::protobuf::Message& message);

// Returns how to format a job's record for the session's terminal and options.
JobTextOptions TextOptionsOf(const Session& session);

// Prints a table, without its headings if --no-headers is given.
void PrintTable(const Session& session, const std::vector<std::string>& headings,
                const std::vector<std::vector<std::string>>& rows);

// Each prints a list in the format of -o: a JSON array, one line or one YAML document per item, ids, or a table.
// `filter` is the filter of the request; empty: none. If the list does not hold all jobs, its JSON is not an array but
// an object with `jobs`, `totalSize` and `nextPageToken`, so that it is not mistaken for the whole list.
void PrintJobs(const Session& session, const JobClient::JobList& list, const std::string& filter);
void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers);
void PrintCheckpoints(const Session& session, const std::vector<v1::Checkpoint>& checkpoints);

// Prints a list of artifacts. `job` is the job whose samples are listed; empty: all artifacts are.
void PrintArtifacts(const Session& session, const std::vector<v1::Artifact>& artifacts, const std::string& job);

// Prints all about one job.
void PrintJob(const Session& session, const v1::Job& job);

// Prints one message as json, jsonl or yaml. Returns false for the other formats, which depend on the kind of message.
bool PrintStructured(const Session& session, const google::protobuf::Message& message);

// Prints values that are in no proto message, like PrintStructured above. They are texts and flags with their names,
// printed in this order.
using PlainFields = std::vector<std::pair<std::string, std::variant<std::string, bool>>>;
bool PrintStructured(const Session& session, const PlainFields& fields);
bool PrintStructured(const Session& session, const std::vector<PlainFields>& list);

// Prints any value, like PrintStructured above. The caller formats it: as indented JSON and as JSON on one line.
bool PrintJson(const Session& session, const std::string& indented, const std::string& one_line);

// Prints several values as one object, like PrintStructured above. Each is a name and one line of JSON; they are
// printed in this order.
using JsonMembers = std::vector<std::pair<std::string, std::string>>;
bool PrintStructured(const Session& session, const JsonMembers& members);

// Prints the result of a command for each of its jobs, as the results arrive: a line of text, or the job in the format
// of -o. As JSON, one job is printed alone; several are printed as one array when this object is destroyed.
// Single-threaded.
class JobResults {
 public:
  JobResults(const Session* session, size_t num_asked) : session_(session), num_asked_(num_asked) {}
  ~JobResults();
  JobResults(const JobResults&) = delete;
  JobResults& operator=(const JobResults&) = delete;
  // Prints one result. `text` follows the job's id, unless the format prints the job itself, or only its id (-q, -o
  // name).
  void Add(const v1::Job& job, const std::string& text);

 private:
  const Session* const session_;
  const size_t num_asked_;
  std::vector<v1::Job> held_;
};

}  // namespace ampd::client
