#pragma once

#include <string>

#include "absl/status/status.h"

namespace ampd {

// Checks a worker's name, which is used in metric labels, command lines and file names: 1 to 253 letters, digits, '-',
// '_' and '.', with a letter or digit at both ends, like host names. Returns INVALID_ARGUMENT for any other name; the
// caller puts the name of the field or flag before the message.
absl::Status CheckWorkerName(const std::string& name);

}  // namespace ampd
