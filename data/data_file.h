#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::data {

// Whose files may be opened. By the bits of their mode and by their group, whoever the process runs as: a worker that
// may read everything must not lend that right to all who submit jobs.
struct ReadRights {
  // Only files that others may read, or that the members of `group` may. Otherwise all that the process may read.
  bool shared_only = false;
  std::optional<gid_t> group;
};

struct DataFile {
  std::string root;  // the data root's folder; no message holds it
  std::string path;  // relative, beneath it
  std::string name;  // what messages call it: the field of the job file and its value
  ReadRights rights = {};
};

// Opens `file` for reading. The kernel refuses to leave the folder and to follow symbolic links (openat2 with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS); anything but a regular file is refused too. Rights
// are checked on what was opened: of the file, and of every folder between the root and it, which must be open to
// search; those of the root itself are its owner's choice. An error names the chmod that helps. Errors are those of
// FileError and DataError.
absl::StatusOr<UniqueFd> OpenDataFile(const DataFile& file);

// An error with the reason DATA_ERROR, the user's to mend: "<name>: <what>".
absl::Status DataError(const std::string& name, const std::string& what);

// An error with the reason DEVICE_ERROR, with which the attempt is tried again at no cost to the job: a disk, a network
// or the host failed, and the data can't help it.
absl::Status HostError(const std::string& name, const std::string& what);

// The error of a call on a data file that failed with `error`, an errno value: HostError where IsTroubleOfTheHost,
// DataError otherwise.
absl::Status FileError(const std::string& name, int error);

// The same of an error that a ZipArchive told: HostError where it is UNAVAILABLE, DataError otherwise.
absl::Status ArchiveError(const std::string& name, const absl::Status& error);

}  // namespace ampd::data
