#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/commands/command.h"
#include "client/commands/job/refusal.h"
#include "client/terminal/exit_codes.h"

// The policies of one job file that `ampctl compare` and `ampctl estimate` work with.
namespace ampd::client {

// The name of the policy that keeps the job file's own `precision`.
inline constexpr char kFilePolicy[] = "file";
inline constexpr char kDefaultPolicies[] = "fp32,bf16,fp16";

// The options -f, --set and --policies.
struct PolicyOptions {
  std::string file;
  std::vector<std::string> overrides;
  std::string policies = kDefaultPolicies;
};
std::vector<Argument> PolicyArguments(PolicyOptions* options, bool is_file_required);

// Splits a list such as "fp32,bf16". INVALID_ARGUMENT for a name that occurs twice, and for a name that is neither a
// preset nor kFilePolicy; the error then suggests the most similar name.
absl::StatusOr<std::vector<std::string>> ParsePolicies(const std::string& text);

// Returns the spec with another precision policy. The name of a preset replaces the whole `precision` of the spec.
v1::JobSpec UnderPolicy(const v1::JobSpec& spec, const std::string& policy);

// Returns whether the spec's `precision` has settings besides a preset. Every policy except kFilePolicy replaces them.
bool HasOwnPolicy(const v1::JobSpec& spec);

// A command's job file and policies.
struct PolicyJob {
  SubmittedFile submitted;
  v1::JobSpec spec;
  std::vector<std::string> policies;
  JobClient::Retry retry;
};

// Reads the job file, connects to the server, and uploads a local model file. `command` is the command to suggest for a
// corrected file, such as "ampctl estimate"; empty: suggest to repeat the user's command line, which has more options.
// With `dry_run`, uploads nothing (see UploadLocalModel).
OrExitCode<PolicyJob> ReadPolicyJob(Session* session, const PolicyOptions& options, const std::string& command,
                                    bool dry_run);

}  // namespace ampd::client
