#pragma once

#include <vector>

#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// The agent's link to the server: an attach stream for reports and directives, and a telemetry stream for uploads and
// acknowledgements. A lost stream is opened again. No call blocks, and a sent message may never arrive. Thread-safe.
class ServerLink {
 public:
  // Everything that arrived since the last call of ReceiveArrivals, in order.
  struct Arrivals {
    int num_attach_streams = 0;     // attach streams that were opened
    int num_telemetry_streams = 0;  // telemetry streams that were opened; resend unacknowledged telemetry
    std::vector<v1::WorkerDirective> directives;
    std::vector<v1::TelemetryAck> acks;
    bool is_replaced = false;  // another agent with this agent's id has taken its place
  };

  virtual ~ServerLink() = default;
  // Queues the report, in place of an older report that has not been sent yet. Drops the report if there is no stream.
  virtual void SendReport(const v1::WorkerReport& report) = 0;
  // Queues the upload. Returns false if the queue is full or there is no stream; the caller then tries again when
  // wake_fd() is readable.
  virtual bool SendTelemetry(const v1::TelemetryUpload& upload) = 0;
  virtual Arrivals ReceiveArrivals() = 0;
  // A descriptor that is readable when a message has arrived, or when a full telemetry queue has space again. The
  // caller reads eight bytes from it, which resets it.
  virtual int wake_fd() const = 0;
};

}  // namespace ampd::agent
