#pragma once

#include <utility>
#include <vector>

#include "worker/agent/link/server_link.h"

namespace ampd::agent {

// Stands in for the connection to the server: keeps the reports and uploads that the agent sends. Single-threaded.
class FakeLink final : public ServerLink {
 public:
  void SendReport(const v1::WorkerReport& report) override { reports.push_back(report); }
  bool SendTelemetry(const v1::TelemetryUpload& upload) override {
    if (uploads.size() >= capacity) {
      return false;
    }
    uploads.push_back(upload);
    return true;
  }
  Arrivals ReceiveArrivals() override { return std::exchange(arrivals, Arrivals()); }
  int wake_fd() const override { return -1; }

  std::vector<v1::WorkerReport> reports;
  std::vector<v1::TelemetryUpload> uploads;
  size_t capacity = 1000;  // Maximum number of `uploads`; SendTelemetry refuses further ones.
  Arrivals arrivals;
};

}  // namespace ampd::agent
