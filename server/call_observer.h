#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ampd::server {

// Is told about every finished call, and about streams. `method` is the full name, "ampd.v1.JobService/GetJob".
// Thread-safe.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // `time` of a stream is zero.
  virtual void Finished(std::string_view method, absl::StatusCode code, absl::Duration time, bool is_stream) = 0;
  virtual void StreamOpened(std::string_view method) = 0;
  virtual void StreamMessageSent(std::string_view method) = 0;
};

}  // namespace ampd::server
