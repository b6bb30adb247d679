#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd {

// Returns a ZIP archive with these entries, (name, content), stored without compression. Equal entries give equal
// bytes, because the archive does not contain the current time. RESOURCE_EXHAUSTED if there is not enough memory.
absl::StatusOr<std::string> ZipOf(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace ampd
