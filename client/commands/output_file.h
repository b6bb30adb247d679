#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"

// Checks of the paths that a command reads and writes on this machine. They make the commands refuse alike, before
// anything is read or written. Whoever writes the file must still not replace one that appears in the meantime.
namespace ampd::client {

// Checks that the file at `path` can be read. NOT_FOUND if there is none. INVALID_ARGUMENT if it is a folder or may not
// be read, so that every command that reads a file on this machine ends with the same exit code.
absl::Status CheckInputFile(const std::string& path);

// Returns an error of reading a file on this machine with the code that CheckInputFile would return. Other errors stay
// as they are.
absl::Status AsInputError(const absl::Status& status);

// Checks that a file can be written at `path`. Returns FAILED_PRECONDITION if its folder does not exist or must not be
// written, or if `path` is a folder or another thing that is no regular file. Returns ALREADY_EXISTS if a file is there
// and `replace` is false. Returns INVALID_ARGUMENT for "-": commands that can write to stdout do so before they ask.
absl::Status CheckOutputFile(const std::string& path, bool replace);

// Returns an error of writing a file on this machine with the code of every such error, FAILED_PRECONDITION, so that
// all commands end with the same exit code. Other errors, such as those of the server, stay as they are.
absl::Status AsOutputError(const absl::Status& status);

// Like AsOutputError, for a command that also reads files: only if the message says that the file `path`, which it
// writes, cannot be created or written.
absl::Status ErrorOfFile(const std::string& path, const absl::Status& status);

// The error for a file that exists and is not replaced.
absl::Status OutputExists(const std::string& path);

// The ending of a file name, and the format that readers of such a file expect.
struct FileEnding {
  const char* ending;  // such as ".json.gz"
  const char* format;
};

// Checks that the file's name has none of these endings of other formats than `format`, in which the command writes.
// INVALID_ARGUMENT if it has one; the message names the file with the ending `own` in place of it.
absl::Status CheckEnding(const std::string& path, const FileEnding& own, const std::vector<std::string>& others);

// Returns the beginning of the names of files that a command writes for the job: the job's name if it is safe as a file
// name, and otherwise its id.
std::string FileNameFor(const v1::Job& job);

// Checks that `output` is none of the files in `inputs`, which writing it would destroy. Ignores paths that do not
// exist, and "-", which stands for standard input or output. Returns INVALID_ARGUMENT if it is one; the message names
// the file.
absl::Status CheckInputsAreKept(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace ampd::client
