#pragma once

#include <functional>
#include <memory>
#include <string>

#include "worker/agent/link/server_link.h"

namespace ampd::agent {

// ServerLink over gRPC: WorkerService's two streams, each with a reader thread and a writer thread. A lost stream is
// opened again, with growing pauses and jitter. Keepalive detects a dead peer. Thread-safe.
class AttachClient final : public ServerLink {
 public:
  struct Options {
    std::string server;                           // host:port
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
