#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/grpc/server_connection.h"
#include "worker/agent/link/server_link.h"

namespace ampd::agent {

// Implements ServerLink with the two gRPC streams of WorkerService. Each stream has a reader thread and a writer
// thread. A lost stream is opened again after a random pause that grows with each failure. Keepalive pings detect a
// dead server. Thread-safe.
class AttachClient final : public ServerLink {
 public:
  struct Options {
    ServerConnection server;
    std::function<void(const std::string&)> log;  // takes one line; called from any thread
  };
  explicit AttachClient(Options options);
  // Ends both streams.
  ~AttachClient() override;

  void Start();

  void SendReport(const v1::WorkerReport& report) override;
  bool SendTelemetry(const v1::TelemetryUpload& upload) override;
  Arrivals ReceiveArrivals() override;
  int wake_fd() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
