#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file.h"

namespace ampd::data {

// Opens `path`, relative, beneath the folder `root` for reading. The kernel refuses to leave the folder and to follow
// symbolic links (openat2 with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS); anything but a regular
// file is refused too. Errors have the reason DATA_ERROR and name `path`, never `root`.
absl::StatusOr<UniqueFd> OpenDataFile(const std::string& root, const std::string& path);

// An error with the reason DATA_ERROR: "<path>: <what>".
absl::Status DataError(const std::string& path, const std::string& what);

}  // namespace ampd::data
