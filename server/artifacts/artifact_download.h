#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ampd/v1/artifact_service.pb.h"
#include "base/api/tenants.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {

// Sends an artifact's content to one reader, in pieces, beginning at an offset. Does not depend on gRPC.
// Single-threaded: owned by the caller of Next, and only one thread calls Next at a time.
class ArtifactDownload {
 public:
  struct Step {
    enum Kind { WAIT, MESSAGE, END };
    Kind kind = WAIT;
    v1::DownloadArtifactResponse message;
    absl::Status status;  // Only for END: how the download ended.
  };

  // `is_closing`: returns true when the server shuts down; the download then ends before its next piece. `tenants`: the
  // tenants whose artifacts the reader may download.
  ArtifactDownload(ArtifactStore* store, Tenants tenants, v1::DownloadArtifactRequest request,
                   std::function<bool()> is_closing)
      : store_(store), tenants_(std::move(tenants)), request_(std::move(request)), is_closing_(std::move(is_closing)) {}

  // Returns the next piece or the end of the download, never WAIT. Ends with NOT_FOUND if there is no such artifact,
  // with INVALID_ARGUMENT if the offset is not within the content, or with DATA_LOSS if the file is shorter than
  // recorded. Blocks on the disk.
  Step Next();

 private:
  absl::Status Begin();
  absl::Status ReadPiece(std::string* piece);

  ArtifactStore* const store_;
  const Tenants tenants_;
  const v1::DownloadArtifactRequest request_;
  const std::function<bool()> is_closing_;
  ArtifactStore::Content content_;  // Open after Begin returned OK.
  int64_t offset_ = 0;
};

}  // namespace ampd::server
