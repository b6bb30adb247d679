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

// Receives the content of one upload, piece by piece. If the object is destroyed before Finish, the store keeps the
// received bytes for the next upload of the content. The store must outlive this object. Single-threaded: its caller
// owns it, and only one thread calls it at a time.
class ArtifactUpload {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{1} << 20;

  // Appends a piece. INVALID_ARGUMENT if the piece is too long or exceeds the announced size; ABORTED if another upload
  // has taken over the content; RESOURCE_EXHAUSTED for the same reasons as ArtifactStore::BeginUpload.
  absl::Status Append(std::string_view piece);
  // Completes the upload. REQUIRES: called once, as the last function.
  //
  //   INVALID_ARGUMENT  (INCOMPLETE_UPLOAD) fewer bytes arrived than announced; the store keeps them
  //                     (DIGEST_MISMATCH) the content has another digest; the store keeps nothing
  absl::StatusOr<v1::Artifact> Finish();

 private:
  friend class ArtifactStore;
  ArtifactUpload(ArtifactStore* store, std::string tenant, const v1::UploadArtifactRequest& request, uint64_t owner);
  // Opens the partial file, and creates it if it does not exist. REQUIRES: the file is reserved for this upload
  // (ArtifactStore::BeginWrite), also for Write.
  absl::Status OpenFile();
  absl::Status Write(std::string_view piece);

  ArtifactStore* const store_;
  const std::string tenant_;
  const std::string key_;  // The result of UploadKey.
  const std::string sha256_;
  const std::string file_name_;
  const int64_t size_bytes_;
  const uint64_t owner_;
  UniqueFd file_;  // Open from the first byte on, so an upload without content makes no file.
  int64_t received_bytes_;
};

}  // namespace ampd::server
