#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "server/rpc/file_relay.h"

namespace ampd::server {

// Sends one file of a checkpoint to one client; it is the session of a StreamReactor. Single-threaded: only one thread
// at a time calls Next.
class FileDownload {
 public:
  struct Step {
    enum Kind { WAIT, MESSAGE, END };
    Kind kind = WAIT;
    v1::DownloadCheckpointFileResponse message;
    absl::Status status;  // Only for END: how the download ended.
  };

  // `open` opens the relay of the file; it may block. `is_closing`: returns true when the server shuts down; the
  // download then ends before its next piece.
  FileDownload(std::function<absl::StatusOr<std::shared_ptr<FileRelay>>()> open, std::function<bool()> is_closing)
      : open_(std::move(open)), is_closing_(std::move(is_closing)) {}
  ~FileDownload();

  Step Next();

 private:
  const std::function<absl::StatusOr<std::shared_ptr<FileRelay>>()> open_;
  const std::function<bool()> is_closing_;
  std::shared_ptr<FileRelay> relay_;  // Null before the first Next.
};

}  // namespace ampd::server
