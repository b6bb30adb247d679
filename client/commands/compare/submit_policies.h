#pragma once

#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "client/commands/compare/policies.h"
#include "client/terminal/session.h"

namespace ampd::client {

// The end of the message for a job that can't be compared.
inline constexpr char kPredictsOnly[] = " makes predictions; only jobs that train a model can be compared";

// The jobs of one comparison. Jobs that were submitted for a comparison have the label compare=<id>.
struct ComparedJobs {
  std::string id;  // Empty: the user named the jobs one by one.
  std::vector<v1::Job> jobs;
};

struct SubmitPoliciesOptions {
  PolicyOptions policies;
  int num_repeats = 1;  // Repeat i adds i to the job file's seed; all policies use the same seeds.
  // The options of the command that prints the verdict again, each after a blank: " --baseline bf16".
  std::string verdict_options = "";
};

// Submits the job file once per repeat and policy, all on one worker and one kind of device. All jobs of one repeat
// come before those of the next, so that a change of the machine's load affects all policies alike. Submits nothing if
// the server rejects one of the policies. Prints the id of the comparison.
OrExitCode<ComparedJobs> SubmitPolicies(Session* session, const SubmitPoliciesOptions& options);

}  // namespace ampd::client
