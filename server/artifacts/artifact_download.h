#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ampd/v1/artifact_service.pb.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {

// What one reader of an artifact gets: its content from an offset on, in pieces. Without a word of gRPC.
// Single-threaded: owner is whoever calls Next, one at a time.
class ArtifactDownload {
 public:
  struct Step {
    enum Kind { WAIT, MESSAGE, END };
    Kind kind = WAIT;
    v1::DownloadArtifactResponse message;
    absl::Status status;  // of the END
  };

  // `is_closing`: the server leaves, the download is to end before its next piece.
  ArtifactDownload(ArtifactStore* store, v1::DownloadArtifactRequest request, std::function<bool()> is_closing)
      : store_(store), request_(std::move(request)), is_closing_(std::move(is_closing)) {}

  // Never WAIT. Ends with NOT_FOUND, with INVALID_ARGUMENT for an offset that is not within the content, with DATA_LOSS
  // when the file is shorter than it should be. Blocks on the disk.
  Step Next();

 private:
  absl::Status Begin();
  absl::Status ReadPiece(std::string* piece);

  ArtifactStore* const store_;
  const v1::DownloadArtifactRequest request_;
  const std::function<bool()> is_closing_;
  ArtifactStore::Content content_;  // open once it has begun
  int64_t offset_ = 0;
};

}  // namespace ampd::server
