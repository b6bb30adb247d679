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

// A message as JSON (protobuf's mapping: camelCase, 64-bit numbers as strings), on one line or indented, or as YAML.
std::string ToJson(const google::protobuf::Message& message, bool indented);
std::string ToYaml(const google::protobuf::Message& message);

// How the session's terminal and options want a job's record as text.
JobTextOptions TextOptionsOf(const Session& session);

// Prints a table, without its headings if --no-headers is given.
void PrintTable(const Session& session, const std::vector<std::string>& headings,
                const std::vector<std::vector<std::string>>& rows);

// Each prints by -o: a JSON array, one line or one YAML document per item, ids, or a table. `filter` is the filter of
// the request; empty: none. As JSON, a list that does not hold all jobs is an object with `jobs`, `totalSize` and
// `nextPageToken` instead of an array, so that it is not mistaken for the whole list.
void PrintJobs(const Session& session, const JobClient::JobList& list, const std::string& filter);
void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers);
void PrintCheckpoints(const Session& session, const std::vector<v1::Checkpoint>& checkpoints);

// `job` is the job whose samples are listed; empty: all artifacts.
void PrintArtifacts(const Session& session, const std::vector<v1::Artifact>& artifacts, const std::string& job);

// One job in full.
void PrintJob(const Session& session, const v1::Job& job);

// Prints one message as json, jsonl or yaml. Returns false for the other formats, which depend on the kind of message.
bool PrintStructured(const Session& session, const google::protobuf::Message& message);

// As above, for values without a message: texts and flags by name, in this order.
using PlainFields = std::vector<std::pair<std::string, std::variant<std::string, bool>>>;
bool PrintStructured(const Session& session, const PlainFields& fields);
bool PrintStructured(const Session& session, const std::vector<PlainFields>& list);

// As above, for any value, given as indented JSON and as JSON on one line.
bool PrintJson(const Session& session, const std::string& indented, const std::string& one_line);

// As above, for several values in one object: names and one-line JSON, in this order.
using JsonMembers = std::vector<std::pair<std::string, std::string>>;
bool PrintStructured(const Session& session, const JsonMembers& members);

// Prints a command's result for each of its jobs: a line, or by -o the job, as they arrive. As JSON, one job is printed
// alone; several are printed as one array when this object is destroyed. Single-threaded.
class JobResults {
 public:
  JobResults(const Session* session, size_t num_asked) : session_(session), num_asked_(num_asked) {}
  ~JobResults();
  JobResults(const JobResults&) = delete;
  JobResults& operator=(const JobResults&) = delete;
  // `text` follows the id if the job itself is not printed; -q and -o name omit it.
  void Add(const v1::Job& job, const std::string& text);

 private:
  const Session* const session_;
  const size_t num_asked_;
  std::vector<v1::Job> held_;
};

}  // namespace ampd::client
