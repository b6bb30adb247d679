#pragma once

#include <string_view>

#include "base/error.h"

namespace ampd::train {

// FAILED_PRECONDITION with reason DEVICE_ERROR: the device, its driver or its libraries do not work.
inline absl::Status DeviceError(std::string_view message) {
  return Error(absl::StatusCode::kFailedPrecondition, "DEVICE_ERROR", message);
}

}  // namespace ampd::train
