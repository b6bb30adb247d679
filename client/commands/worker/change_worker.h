#pragma once

#include <functional>
#include <string>

#include "client/commands/command.h"

// Functions shared by the commands that change one worker.
namespace ampd::client {

// The positional argument: a worker's name.
Argument WorkerName(std::string* name);

// If the error says that no worker has the name, adds the most similar name, if there is one. Returns other errors
// unchanged.
absl::Status WithMeantWorker(JobClient* client, const absl::Status& status, const std::string& name);

// Calls `call` with the worker's name and prints the worker that it returns. Returns the exit code.
int ChangeWorker(Session* session, const std::string& name,
                 const std::function<absl::StatusOr<v1::Worker>(JobClient*, const std::string&)>& call);

}  // namespace ampd::client
