#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/grpc/server_connection.h"
#include "worker/agent/artifacts/artifact_source.h"

namespace ampd::agent {

// Downloads artifacts over gRPC from the server's ArtifactService. A download that takes longer than `deadline` fails
// with DEADLINE_EXCEEDED; the caller can then resume it from the bytes that it has. Thread-safe.
class ArtifactClient final : public ArtifactSource {
 public:
  // Does not connect yet; the first download opens the connection.
  explicit ArtifactClient(const ServerConnection& server, absl::Duration deadline = absl::Minutes(10));
  ~ArtifactClient() override;

  absl::Status Download(const std::string& name, int64_t offset, const OnPiece& on_piece) override;
  void Cancel() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
