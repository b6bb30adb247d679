#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd::data {

// Which files may be opened, by the bits of their mode and by their group, whatever user the process runs as. A worker
// that may read everything must not pass that right on to everyone who submits jobs.
struct ReadRights {
  // If true, only files that others may read, or members of `group`. Otherwise everything that the process may read.
  bool shared_only = false;
  std::optional<gid_t> group;
};

struct DataFile {
  std::string root;  // Folder of the data root; it never appears in messages.
  std::string path;  // Relative to the root.
  std::string name;  // Name in messages: the field of the job file and its value.
  ReadRights rights = {};
};

// Opens `file` for reading. The kernel refuses to leave the folder and to follow symbolic links (openat2 with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS). Anything but a regular file is rejected too. Rights
// are checked on the opened file and on every folder between it and the root, which must be searchable. The rights of
// the root itself are its owner's choice. An error names the chmod that helps. Errors are those of FileError and
// DataError.
absl::StatusOr<UniqueFd> OpenDataFile(const DataFile& file);

// An error that the user can fix, with the reason DATA_ERROR: "<name>: <what>".
absl::Status DataError(const std::string& name, const std::string& what);

// An error with the reason DEVICE_ERROR: a disk, a network or the host failed, which no change of the data can fix. The
// attempt is retried at no cost to the job.
absl::Status HostError(const std::string& name, const std::string& what);

// Converts `error`, the errno of a failed call on a data file: HostError if IsTroubleOfTheHost, DataError otherwise.
absl::Status FileError(const std::string& name, int error);

// Converts an error of a ZipArchive: HostError if it is UNAVAILABLE, DataError otherwise.
absl::Status ArchiveError(const std::string& name, const absl::Status& error);

}  // namespace ampd::data
