#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"
#include "client/commands/session.h"

namespace ampd::client {

// A message as JSON (protobuf's mapping: camelCase, 64-bit numbers as strings), in one line or indented, or as YAML.
std::string ToJson(const google::protobuf::Message& message, bool indented);
std::string ToYaml(const google::protobuf::Message& message);

// Prints by -o: a JSON array, a line or a YAML document each, ids, or a table.
void PrintJobs(const Session& session, const std::vector<v1::Job>& jobs);
void PrintWorkers(const Session& session, const std::vector<v1::Worker>& workers);

// One job in full.
void PrintJob(const Session& session, const v1::Job& job);

// One message by -o json, jsonl or yaml; false for the other formats, which have no general form.
bool PrintStructured(const Session& session, const google::protobuf::Message& message);

}  // namespace ampd::client
