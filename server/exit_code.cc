#include "server/exit_code.h"

#include <string>

#include "base/error.h"

namespace ampd::server {

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (status.ok()) {
    return kExitOk;
  }
  if (reason == "DATA_DIRECTORY_GONE") {
    return kExitDataGone;
  }
  if (reason == "ADDRESS_IN_USE" || reason == "ADDRESS_NOT_BINDABLE") {
    return kExitPort;
  }
  if (reason == "DATA_DIRECTORY_LOCKED" || reason == "DATA_DIRECTORY_UNUSABLE" || reason == "OPEN_TO_OTHERS") {
    return kExitDataLocked;
  }
  if (reason == "MEMORY_LIMIT_EXCEEDED" || reason == "LISTENER_IS_DEAD") {
    return kExitRestart;
  }
  if (reason == "NEWER_SCHEMA" || status.code() == absl::StatusCode::kDataLoss) {
    return kExitData;
  }
  return kExitInternal;
}

}  // namespace ampd::server
