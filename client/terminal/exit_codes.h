#pragma once

#include <variant>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"

namespace ampd::client {

// ampctl's exit statuses, documented in docs/cli.md and `ampctl help exit-codes`. Scripts rely on them.
enum ExitCode {
  kExitOk = 0,
  kExitFailure = 1,  // the job failed, or any other server error
  kExitUsage = 2,    // the command line or job file is wrong, or a local file cannot be read
  kExitNotFound = 3,
  kExitAuth = 4,
  kExitUnreachable = 5,
  kExitCancelled = 6,  // the job was cancelled
  kExitTimeout = 7,
  kExitInterrupted = 130,  // Ctrl-C
};

ExitCode ExitCodeOf(const absl::Status& status);
// Returns the exit code for a job that ended in `state`. REQUIRES: `state` is terminal.
ExitCode ExitCodeOf(v1::Job::State state);

inline constexpr char kExitCodesText[] =
    "  0  success; for job watch, job wait and job submit --follow: the job succeeded; for job wait --for: it reached "
    "the state\n"
    "  1  the job failed, or ended before the state of job wait --for; the server returned an error; a check found a "
    "fault (health, data inspect, model inspect, checkpoint verify); you answered a question with no; or the output "
    "could not be written (for example "
    "because the file exists and --force is not given)\n"
    "  2  the command line or the job file is wrong, or ampctl cannot read a file on this machine. If the file is "
    "missing and would hold data, a model or an upload, the exit code is 3\n"
    "  3  there is no such job, worker, checkpoint, artifact, token or context; or a file on this machine that would "
    "hold data, a model or an upload is missing\n"
    "  4  permission denied by the server\n"
    "  5  the server cannot be reached\n"
    "  6  the job was cancelled\n"
    "  7  a time limit passed: that of --timeout, after which the jobs continue, or that for an answer of the server\n"
    "130  Ctrl-C\n";

// A result or, after the error was printed, the exit code of the command.
template <typename T>
using OrExitCode = std::variant<T, int>;

}  // namespace ampd::client
