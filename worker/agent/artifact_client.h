#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "worker/agent/artifact_source.h"

namespace ampd::agent {

// ArtifactSource over gRPC: ArtifactService of the server. A download that is not through after `deadline` ends as
// DEADLINE_EXCEEDED; a next one goes on behind what has come. Thread-safe.
class ArtifactClient final : public ArtifactSource {
 public:
  // `server`: host:port. Connects when something is asked for.
  explicit ArtifactClient(const std::string& server, absl::Duration deadline = absl::Minutes(10));
  ~ArtifactClient() override;

  absl::Status Download(const std::string& name, int64_t offset, const Take& take) override;
  void Cancel() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ampd::agent
