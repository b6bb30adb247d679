#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ampd::agent {

// The source from which the agent downloads artifacts. Thread-safe.
class ArtifactSource {
 public:
  using OnPiece = std::function<absl::Status(std::string_view)>;

  virtual ~ArtifactSource() = default;
  // Reads the artifact `name`, starting at byte `offset`, and passes its content to `on_piece`, piece by piece. Returns
  // after the last piece. If `on_piece` returns an error, stops and returns that error. Errors of the server: NOT_FOUND
  // if there is no such artifact, INVALID_ARGUMENT if `offset` is beyond the artifact's end, UNAVAILABLE if the server
  // can't be reached.
  virtual absl::Status Download(const std::string& name, int64_t offset, const OnPiece& on_piece) = 0;
  // Cancels all running downloads. These downloads, and all that are started later, fail with CANCELLED.
  virtual void Cancel() = 0;
};

}  // namespace ampd::agent
