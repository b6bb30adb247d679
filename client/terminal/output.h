#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// A message as JSON (protobuf's mapping: camelCase, 64-bit numbers as strings), in one line or indented, or as YAML.
std::string ToJson(const google::protobuf::Message& message, bool indented);
std::string ToYaml(const google::protobuf::Message& message);

// Prints by -o: a JSON array, a line or a YAML document each, ids, or a table.
// `filter` is what they were asked for by; empty: all there are.
// As JSON, a list that does not hold all jobs is no array but an object with `jobs`, `totalSize` and `nextPageToken`,
// so that nobody takes it for the whole.
void PrintJobs(const Session& session, const JobClient::JobList& list, const std::string& filter);
void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers);
void PrintCheckpoints(const Session& session, const std::vector<v1::Checkpoint>& checkpoints);

// `job` is the one whose samples they are; empty: all there are.
void PrintArtifacts(const Session& session, const std::vector<v1::Artifact>& artifacts, const std::string& job);

// One job in full.
void PrintJob(const Session& session, const v1::Job& job);

// One message by -o json, jsonl or yaml; false for the other formats, which have no general form.
bool PrintStructured(const Session& session, const google::protobuf::Message& message);

// The same of what no message describes: texts and flags by name, in their order.
using PlainFields = std::vector<std::pair<std::string, std::variant<std::string, bool>>>;
bool PrintStructured(const Session& session, const PlainFields& fields);
bool PrintStructured(const Session& session, const std::vector<PlainFields>& list);

// The same of any value, given as JSON over several lines and in one.
bool PrintJson(const Session& session, const std::string& indented, const std::string& one_line);

// The same of several values in one object: names, and JSON of one line, in their order.
using JsonMembers = std::vector<std::pair<std::string, std::string>>;
bool PrintStructured(const Session& session, const JsonMembers& members);

// What a command says of each of the jobs that it was given: a line, or the job by -o, as they come. As JSON it is the
// job itself when one was asked for; of several it is one array, printed at the end of this object's life.
// Single-threaded.
class JobResults {
 public:
  JobResults(const Session* session, size_t num_asked) : session_(session), num_asked_(num_asked) {}
  ~JobResults();
  JobResults(const JobResults&) = delete;
  JobResults& operator=(const JobResults&) = delete;
  // `text` stands behind the id where no job is printed; it is left out by -q and -o name.
  void Add(const v1::Job& job, const std::string& text);

 private:
  const Session* const session_;
  const size_t num_asked_;
  std::vector<v1::Job> held_;
};

}  // namespace ampd::client
