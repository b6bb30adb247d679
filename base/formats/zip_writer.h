#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd {

// Returns a ZIP archive with these entries, (name, content), stored without compression. Equal entries give equal
// bytes: the archive has no time of today. RESOURCE_EXHAUSTED if there is no memory for it.
absl::StatusOr<std::string> ZipOf(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace ampd
