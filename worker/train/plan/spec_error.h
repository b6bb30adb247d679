#pragma once

#include <string_view>

#include "base/error.h"

namespace ampd::train {

// INVALID_ARGUMENT with reason SPEC_ERROR: the job's spec and its data or model do not fit together.
inline absl::Status SpecError(std::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR", message);
}

}  // namespace ampd::train
