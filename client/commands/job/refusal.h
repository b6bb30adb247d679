#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/commands/job/local_model.h"
#include "client/jobfile/job_file.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/session.h"

namespace ampd::client {

// A job file that was read, and what a command made of it.
struct SubmittedFile {
  std::string path;    // As the user gave it; "-": standard input.
  std::string source;  // Its name in messages.
  JobFile file = {};
  LocalModel model = {};
};

// Reads the job file at `path` ("-": standard input) with these overrides. If it can't be read or has problems, prints
// them and returns the exit code.
OrExitCode<SubmittedFile> ReadSubmittedFile(Session* session, const std::string& path,
                                            const std::vector<std::string>& overrides);

// Prints why the server refused to create a job from the file: its field violations with their lines in the file or, if
// there are none, the error. Returns the exit code.
int FailRefused(Session* session, const absl::Status& status, const SubmittedFile& submitted);

}  // namespace ampd::client
