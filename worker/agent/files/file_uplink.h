#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// Sends files to the server. Thread-safe.
class FileUplink {
 public:
  // Returns the next message of a file; its `last` or `failure` marks the end.
  using NextPiece = std::function<v1::FilePiece()>;

  virtual ~FileUplink() = default;
  // Sends the messages that `next` returns, until the last one. Blocks while the server takes no more. Returns the
  // status with which the server ended the call: CANCELLED if nobody waits for the file any more.
  virtual absl::Status Send(const NextPiece& next) = 0;
  // Ends all calls, and refuses further ones.
  virtual void Cancel() = 0;
};

}  // namespace ampd::agent
