#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/trace_context.h"

namespace ampd::server {

// Receives every finished call, and the events of streams. `method` is the full name, such as
// "ampd.v1.JobService/GetJob". `trace` is the server's span for the call. Thread-safe.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Called when a call or a stream ended. `time` is the duration of the call; zero for a stream.
  virtual void Finished(std::string_view method, absl::StatusCode code, absl::Duration time, bool is_stream,
                        const TraceContext& trace) = 0;
  virtual void StreamOpened(std::string_view method) = 0;
  virtual void StreamMessageSent(std::string_view method) = 0;
  // Called when a call or a stream ended with this error, but not if it ended because its client disconnected. `peer`
  // is the address of the client in gRPC's format.
  virtual void Refused(std::string_view /*method*/, const absl::Status& /*status*/, const std::string& /*peer*/,
                       const TraceContext& /*trace*/) {}
  // Called when the server has accepted the first report on a worker's stream.
  virtual void WorkerAttached(const std::string& /*worker*/, const std::string& /*peer*/,
                              const TraceContext& /*trace*/) {}
};

}  // namespace ampd::server
