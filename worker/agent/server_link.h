#pragma once

#include <vector>

#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// What the agent needs of the server: the two streams, made again whenever they are lost. Nothing blocks, and nothing
// that was sent is certain to arrive. Thread-safe.
class ServerLink {
 public:
  // What came since the last Take, in its order.
  struct Arrivals {
    int num_attach_streams = 0;     // new ones
    int num_telemetry_streams = 0;  // new ones: all that is not acknowledged must be sent again
    std::vector<v1::WorkerDirective> directives;
    std::vector<v1::TelemetryAck> acks;
    bool is_replaced = false;  // another agent of this one's id has taken its place
  };

  virtual ~ServerLink() = default;
  // Dropped without a stream; an older report that has not left yet is dropped for this one.
  virtual void SendReport(const v1::WorkerReport& report) = 0;
  // False when it has no room, or no stream: to be tried again after the next wake.
  virtual bool SendTelemetry(const v1::TelemetryUpload& upload) = 0;
  virtual Arrivals Take() = 0;
  // Readable when there is something to take, or room again. The caller reads eight bytes from it.
  virtual int wake_fd() const = 0;
};

}  // namespace ampd::agent
