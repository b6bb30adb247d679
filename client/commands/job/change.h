#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/terminal/session.h"

// Functions shared by the commands that change several jobs in the same way.
namespace ampd::client {

// Returns the name of the job's state, such as "RUNNING".
std::string StateName(const v1::Job& job);

// A change to make to each job, and the text to print about each changed job.
struct JobChange {
  std::function<absl::StatusOr<v1::Job>(JobClient*, const std::string& id)> call;  // returns the changed job
  std::function<std::string(const v1::Job&)> text = StateName;  // printed on stdout after the job's id
  std::function<std::string(const v1::Job&)> note = nullptr;    // printed on stderr unless it is empty
};

// Makes the change to each of the jobs and prints the results. Continues after a failure, unless the server does not
// answer. Returns the exit code of the first failure.
int ChangeJobs(Session* session, const std::vector<std::string>& ids, const JobChange& change);

}  // namespace ampd::client
