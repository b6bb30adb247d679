#include "client/commands/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/pending_file.h"

namespace ampd::client {

namespace fs = std::filesystem;

absl::Status OutputExists(const std::string& path) {
  return absl::AlreadyExistsError(
      absl::StrCat(path, " already exists; write to another file, or use --force to replace this one"));
}

absl::Status CheckOutputFile(const std::string& path, bool replace) {
  if (path == "-") {
    return absl::InvalidArgumentError(
        "this command cannot write to stdout; name a file (./- for a file with the name \"-\")");
  }
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::is_directory(there) || path.ends_with('/')) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a folder; name a file"));
  }
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file; name another file"));
  }
  if (!replace && fs::exists(fs::symlink_status(path, error))) {
    return OutputExists(path);
  }
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && fs::status(folder, error).type() == fs::file_type::not_found) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " cannot be written: the folder ", folder.string(), " does not exist; create it first"));
  }
  if (!folder.empty() && fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " cannot be written: ", folder.string(), " is no folder"));
  }
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status WriteOutputFile(const std::string& path, std::string_view content, bool replace) {
  auto file = PendingFile::Create(path, replace);
  absl::Status written = file.status();
  if (written.ok()) {
    written = file->Append(content);
    written = written.ok() ? file->Commit() : written;
  }
  return absl::IsAlreadyExists(written) ? OutputExists(path)
         : written.ok()                 ? written
                                        : AsOutputError(WithPrefix(path, written));
}

absl::Status CheckInputFile(const std::string& path) {
  struct stat found = {};
  const int error = stat(path.c_str(), &found) == 0 ? 0 : errno;
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(error)));
  }
  if (error == 0 && S_ISDIR(found.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder; name a file"));
  }
  if (error != 0 || access(path.c_str(), R_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be opened: ", std::strerror(error != 0 ? error : errno)));
  }
  return absl::OkStatus();
}

absl::Status AsInputError(const absl::Status& status) {
  return absl::IsPermissionDenied(status) && ReasonOf(status).empty() ? absl::InvalidArgumentError(status.message())
                                                                      : status;
}

absl::Status AsOutputError(const absl::Status& status) {
  const bool is_of_file = absl::IsNotFound(status) || absl::IsPermissionDenied(status) || absl::IsInternal(status);
  return is_of_file && ReasonOf(status).empty() ? absl::FailedPreconditionError(status.message()) : status;
}

absl::Status CheckInputsAreKept(const std::vector<std::string>& inputs, const std::string& output) {
  std::error_code error;
  for (const std::string& input : inputs) {
    if (input != "-" && output != "-" && fs::equivalent(input, output, error) && !error) {
      return absl::InvalidArgumentError(
          absl::StrCat("input and output are the same file: ", input, "; name another file to write"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEnding(const std::string& path, const FileEnding& own, const std::vector<std::string>& others) {
  for (const std::string& other : others) {
    if (path.ends_with(other)) {
      return absl::InvalidArgumentError(absl::StrCat(path, " ends in ", other, ", but this command writes ", own.format,
                                                     "; name the file ", path.substr(0, path.size() - other.size()),
                                                     own.ending));
    }
  }
  return absl::OkStatus();
}

absl::Status ErrorOfFile(const std::string& path, const absl::Status& status) {
  return absl::StartsWith(status.message(), path + ": cannot be ") ? AsOutputError(status) : status;
}

std::string FileNameFor(const v1::Job& job) {
  const std::string& name = job.spec().name();
  const bool is_safe = !name.empty() && absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
                       std::all_of(name.begin(), name.end(), [](unsigned char c) {
                         return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
                       });
  return is_safe ? name : job.id();
}

}  // namespace ampd::client
