#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// Sends files to the server. Thread-safe.
class FileUplink {
 public:
  // Returns the next message of a file; a message with `last` or `failure` is the end of the file.
  using NextPiece = std::function<v1::FilePiece()>;

  virtual ~FileUplink() = default;
  // Sends the messages that `next` returns, up to the last one. Blocks while the server accepts no further messages.
  // Returns the status with which the server ended the call: CANCELLED if nobody waits for the file any more.
  virtual absl::Status Send(const NextPiece& next) = 0;
  // Ends all calls of Send. Every later call fails at once.
  virtual void Cancel() = 0;
};

}  // namespace ampd::agent
