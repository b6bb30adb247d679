#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/grpc/grpc_status.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {

// A watch of a job that does not end by itself, so the watch stays open until the server or the test ends it.
class OpenWatch {
 public:
  OpenWatch(ServerAccess* access, const std::string& job) : context_(Context(absl::Minutes(10))) {
    v1::WatchJobRequest request;
    request.set_id(job);
    reader_ = access->jobs().WatchJob(context_.get(), request);
    v1::WatchJobResponse first;
    EXPECT_TRUE(reader_->Read(&first));
    thread_ = std::thread([this] {
      v1::WatchJobResponse next;
      while (reader_->Read(&next)) {
      }
      has_ended_ = true;
    });
  }
  ~OpenWatch() {
    if (thread_.joinable()) {
      End();
    }
  }
  OpenWatch(const OpenWatch&) = delete;
  OpenWatch& operator=(const OpenWatch&) = delete;

  bool HasEnded() const { return has_ended_; }
  // Waits until the server ends the watch, and returns how long that took.
  absl::Duration AwaitEnd() {
    const absl::Duration start = SystemClock().SinceBoot();
    thread_.join();
    status_ = FromGrpcStatus(reader_->Finish());
    EXPECT_FALSE(status_.ok());
    return SystemClock().SinceBoot() - start;
  }
  // Returns the status with which the watch ended. REQUIRES: AwaitEnd returned.
  const absl::Status& status() const { return status_; }
  void End() {
    context_->TryCancel();
    AwaitEnd();
  }

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader_;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
  absl::Status status_;
};

}  // namespace ampd::server
