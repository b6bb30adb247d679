#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/terminal/session.h"

// The commands that change several jobs in one way.
namespace ampd::client {

// The state's name.
std::string StateName(const v1::Job& job);

// A change of one job, and what is printed about it.
struct JobChange {
  std::function<absl::StatusOr<v1::Job>(JobClient*, const std::string& id)> call;  // returns the job afterwards
  std::function<std::string(const v1::Job&)> text = StateName;                     // follows the job's id
  std::function<std::string(const v1::Job&)> note = nullptr;                       // printed to stderr unless empty
};

// Changes each of the jobs, even if it fails for another, and prints the results. Returns the exit code of the first
// failure.
int ChangeJobs(Session* session, const std::vector<std::string>& ids, const JobChange& change);

}  // namespace ampd::client
