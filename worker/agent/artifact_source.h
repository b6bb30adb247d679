#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ampd::agent {

// What the agent gets artifacts from. Thread-safe.
class ArtifactSource {
 public:
  using Take = std::function<absl::Status(std::string_view)>;

  virtual ~ArtifactSource() = default;
  // Passes the content of artifact `name` from byte `offset` on to `take`, piece by piece, and returns when that is
  // through, or with the first error of `take`. Otherwise as the server said it: NOT_FOUND when there is none,
  // INVALID_ARGUMENT when the content has fewer bytes, UNAVAILABLE when the server is out of reach. Blocks.
  virtual absl::Status Download(const std::string& name, int64_t offset, const Take& take) = 0;
  // Ends what blocks, with CANCELLED, now and from now on.
  virtual void Cancel() = 0;
};

}  // namespace ampd::agent
