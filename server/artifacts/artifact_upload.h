#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/artifact_service.pb.h"
#include "base/io/file.h"

namespace ampd::server {

class ArtifactStore;

// Receives the content of one upload, piece by piece. If the object is destroyed before Finish, the bytes received so
// far are kept for the next upload of the content. The store must outlive it. Single-threaded: its caller owns it, and
// only one thread calls it at a time.
class ArtifactUpload {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{1} << 20;

  // INVALID_ARGUMENT for a piece that is too long or exceeds the announced size; ABORTED when another upload has taken
  // over; RESOURCE_EXHAUSTED as BeginUpload.
  absl::Status Append(std::string_view piece);
  // Call once, last. INVALID_ARGUMENT when fewer bytes arrived than announced (reason INCOMPLETE_UPLOAD: they are
  // kept), or when the digest differs (reason DIGEST_MISMATCH: nothing is kept).
  absl::StatusOr<v1::Artifact> Finish();

 private:
  friend class ArtifactStore;
  ArtifactUpload(ArtifactStore* store, std::string tenant, const v1::UploadArtifactRequest& request, uint64_t owner,
                 UniqueFd file);

  ArtifactStore* const store_;
  const std::string tenant_;
  const std::string key_;  // Of UploadKey.
  const std::string sha256_;
  const std::string file_name_;
  const int64_t size_bytes_;
  const uint64_t owner_;
  UniqueFd file_;
  int64_t received_bytes_;
};

}  // namespace ampd::server
