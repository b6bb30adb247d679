#pragma once

#include <vector>

#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// The agent's link to the server: the two streams, opened again whenever they are lost. No call blocks, and a sent
// message is not certain to arrive. Thread-safe.
class ServerLink {
 public:
  // Everything that arrived since the last ReceiveArrivals, in order.
  struct Arrivals {
    int num_attach_streams = 0;     // streams opened since
    int num_telemetry_streams = 0;  // streams opened since: all telemetry that is not acknowledged must be sent again
    std::vector<v1::WorkerDirective> directives;
    std::vector<v1::TelemetryAck> acks;
    bool is_replaced = false;  // another agent with this agent's id has taken its place
  };

  virtual ~ServerLink() = default;
  // Drops the report if there is no stream. Replaces an older report that has not been sent yet.
  virtual void SendReport(const v1::WorkerReport& report) = 0;
  // Returns false if the queue is full or there is no stream: try again after the next wake.
  virtual bool SendTelemetry(const v1::TelemetryUpload& upload) = 0;
  virtual Arrivals ReceiveArrivals() = 0;
  // Readable when there is something to take, or the queue has capacity again. The caller reads eight bytes from it.
  virtual int wake_fd() const = 0;
};

}  // namespace ampd::agent
