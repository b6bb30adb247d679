#pragma once

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"

namespace ampd::client {

// What ampctl's exit status means. Documented in docs/cli.md and `ampctl help exit-codes`; scripts rely on it.
enum ExitCode {
  kExitOk = 0,
  kExitFailure = 1,  // a failed job, or any other error of the server
  kExitUsage = 2,    // the command line or the job file
  kExitNotFound = 3,
  kExitAuth = 4,
  kExitUnreachable = 5,
  kExitCancelled = 6,  // the job was cancelled
  kExitTimeout = 7,
  kExitInterrupted = 130,  // Ctrl-C
};

ExitCode ExitCodeOf(const absl::Status& status);
// Of a terminal state.
ExitCode ExitCodeOf(v1::Job::State state);

inline constexpr char kExitCodesText[] =
    "  0  done; of watch, wait and --follow: the job succeeded\n"
    "  1  the job failed, the server answered with an error or is not serving, or the output could not be written\n"
    "  2  the command line or the job file is wrong, or the job file cannot be read\n"
    "  3  there is no such job, worker, checkpoint, data or model file\n"
    "  4  not allowed\n"
    "  5  the server cannot be reached\n"
    "  6  the job was cancelled\n"
    "  7  the time given was not enough\n"
    "130  Ctrl-C\n";

}  // namespace ampd::client
