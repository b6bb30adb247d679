#pragma once

#include <memory>
#include <string>

#include "worker/agent/artifact_source.h"

namespace ampd::agent {

// ArtifactSource over gRPC: ArtifactService of the server. Keepalive finds a dead peer. Thread-safe.
class ArtifactClient final : public ArtifactSource {
 public:
  // `server`: host:port. Connects when something is asked for.
  explicit ArtifactClient(const std::string& server);
  ~ArtifactClient() override;

  absl::Status Download(const std::string& name, int64_t offset, const Take& take) override;
  void Cancel() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
