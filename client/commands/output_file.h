#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"

// Checks of the paths that a command reads and writes on this machine. They give all commands the same errors, before
// the command reads or writes anything. A file may still appear between the check and the writing, so all commands
// write with WriteOutputFile or with PendingFile (base/io/pending_file.h), which do not replace it.
namespace ampd::client {

// Checks that the file at `path` can be read. NOT_FOUND if there is none. INVALID_ARGUMENT if it is a folder or may not
// be read. All commands use this check, so that they end with the same exit code.
absl::Status CheckInputFile(const std::string& path);

// `status` comes from reading a local file. If CheckInputFile reports the same fault with another status code, returns
// `status` with that code; otherwise returns `status` unchanged.
absl::Status AsInputError(const absl::Status& status);

// Checks that a file can be written at `path`. FAILED_PRECONDITION if its folder does not exist or is not writable, or
// if `path` is not a regular file; ALREADY_EXISTS if the file exists and `replace` is false; INVALID_ARGUMENT for "-".
// Commands that support "-" as stdout do not call this function for it.
absl::Status CheckOutputFile(const std::string& path, bool replace);

// Writes the file at `path`: durably, and completely or not at all. ALREADY_EXISTS if it exists and `replace` is false,
// also if it has appeared since CheckOutputFile. Other errors have the codes of CheckOutputFile and name the path.
absl::Status WriteOutputFile(const std::string& path, std::string_view content, bool replace);

// Changes the code of an error of writing a local file to FAILED_PRECONDITION, so that all commands end with the same
// exit code. Returns other errors, such as those of the server, unchanged.
absl::Status AsOutputError(const absl::Status& status);

// For a command that writes `path` and also reads other files. If the message says that `path` cannot be created or
// written, changes the code to FAILED_PRECONDITION. Returns all other errors unchanged.
absl::Status ErrorOfFile(const std::string& path, const absl::Status& status);

// Returns the error for an existing file that the command does not replace.
absl::Status OutputExists(const std::string& path);

// The ending of a file name, and the format of files that have this ending.
struct FileEnding {
  const char* ending;  // such as ".json.gz"
  const char* format;
};

// Returns INVALID_ARGUMENT if the file's name has one of the endings `others`, which belong to formats that the command
// does not write. The message suggests the name with the ending `own`.
absl::Status CheckEnding(const std::string& path, const FileEnding& own, const std::vector<std::string>& others);

// Returns the beginning of the names of files that a command writes for the job: the job's name if that is safe in a
// file name, and otherwise its id.
std::string FileNameFor(const v1::Job& job);

// Checks that `output` is none of the files in `inputs`, because writing would destroy the input. Ignores paths that do
// not exist, and "-", which stands for standard input or output. INVALID_ARGUMENT if it is one; the message names the
// file.
absl::Status CheckInputsAreKept(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace ampd::client
