#pragma once

#include <string>

#include "absl/status/status.h"

namespace ampd {

// Workers' names are labels of metrics, words of command lines and parts of file names: 1 to 253 letters, digits, '-',
// '_' and '.', with a letter or digit at both ends, as hosts' names are. INVALID_ARGUMENT says what is wrong, in words
// that follow the name of the field or flag.
absl::Status CheckWorkerName(const std::string& name);

}  // namespace ampd
