#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/commands/job/local_model.h"
#include "client/jobfile/job_file.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/session.h"

namespace ampd::client {

// A job file to read, as the command line names it.
struct FileToRead {
  std::string path;  // "-": standard input
  std::vector<std::string> overrides;
  std::string name = {};  // value of --name; empty: the name in the file
  // The user's command line up to the file: "ampctl estimate". Empty if it has options that the file does not follow.
  std::string command;
  std::string end_of_command = {};  // the user's options after the file
  bool has_weights = false;         // the command line names the checkpoint with the weights
};

// A job file that was read, and the values that a command derived from it.
struct SubmittedFile {
  std::string source;   // the file's name in messages
  std::string command;  // the command line to repeat with the corrected file (ProblemAdvice); empty if it has overrides
  JobFile file = {};
  LocalModel model = {};
};

// Reads the job file. If the file can't be read or has problems, prints them and returns the exit code. If some fields
// of a file have problems, asks the server once, without retries, to check the other fields, and prints its violations
// too.
OrExitCode<SubmittedFile> ReadSubmittedFile(Session* session, const FileToRead& to_read);

// Prints which fields of an accepted file the overrides replaced as a whole: for example, all of the file's `adamw` if
// an override chooses another optimizer. Also prints other effects of overrides that the user may not expect
// (JobFile::notes).
void NoteReplaced(const Session& session, const SubmittedFile& submitted);

// Prints why the server refused to create a job from the file. Prints the field violations with their lines in the file
// or, if there are none, the error. Returns the exit code.
int FailRefused(Session* session, const absl::Status& status, const SubmittedFile& submitted);

}  // namespace ampd::client
