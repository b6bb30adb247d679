#pragma once

#include <memory>
#include <string>

#include "base/grpc/server_connection.h"
#include "worker/agent/files/file_uplink.h"

namespace ampd::agent {

// Implements FileUplink with WorkerService.SendFile. Uses a connection of its own, so that files do not delay reports.
// The first file opens the connection. Thread-safe.
class FileUplinkClient final : public FileUplink {
 public:
  explicit FileUplinkClient(const ServerConnection& server);
  ~FileUplinkClient() override;

  absl::Status Send(const NextPiece& next) override;
  void Cancel() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
