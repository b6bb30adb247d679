#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::data {

// Which files a job may open. The decision depends on the files' mode bits and group, not on the user that runs the
// process. So a worker that may read every file does not give that right to everyone who submits jobs.
struct ReadRights {
  // If true, a job may open only files that all users or the members of `group` may read. If false, it may open every
  // file that the process may read.
  bool shared_only = false;
  std::optional<gid_t> group;
};

struct DataFile {
  std::string root;  // Folder of the data root. Never appears in messages.
  std::string path;  // Relative to the root.
  std::string name;  // Name in messages: the field of the job file and its value.
  ReadRights rights = {};
};

// Opens `file` for reading. The kernel refuses to leave the folder and to follow symbolic links (openat2 with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS). Anything but a regular file is rejected too.
// `rights` are checked on the opened file and on every folder between it and the root; the folders must be searchable.
// The rights of the root folder itself are not checked. An error for missing rights names the chmod command that helps.
// Returns the errors of FileError and DataError.
absl::StatusOr<UniqueFd> OpenDataFile(const DataFile& file);

// Makes an error with the reason DATA_ERROR and the message "<name>: <what>". The user can fix such an error by
// changing the data or the job.
absl::Status DataError(const std::string& name, const std::string& what);

// Makes an error with the reason DEVICE_ERROR: a disk, a network or the host failed, and a change of the data can't fix
// that. The job is queued again without using one of its retries.
absl::Status HostError(const std::string& name, const std::string& what);

// Converts `error`, the errno of a failed call on a data file: a HostError if IsTroubleOfTheHost(error), a DataError
// otherwise.
absl::Status FileError(const std::string& name, int error);

// Converts an error of a ZipArchive: a HostError if it is UNAVAILABLE, a DataError otherwise.
absl::Status ArchiveError(const std::string& name, const absl::Status& error);

}  // namespace ampd::data
