#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/ipc/frames.h"

namespace ampd::agent {

// A connection to a Unix socket that carries frames (base/ipc/frames.h) in both directions. After the connection is
// lost, MaybeConnect connects again, with growing pauses. No call blocks. Single-threaded; owner: the agent's loop.
class FrameChannel {
 public:
  explicit FrameChannel(std::string path) : path_(std::move(path)) {}

  // Tries to connect if there is no connection and the next try is due. Returns true if this call has connected.
  bool MaybeConnect(absl::Duration now);

  // Queues a frame. REQUIRES: connected.
  void Send(const google::protobuf::MessageLite& message);

  // Reads at most one buffer of data, appends the complete frames in it to `payloads`, and sends queued frames. An
  // error means that the connection is lost.
  absl::Status Exchange(std::vector<std::string>* payloads);

  void Close();
  bool connected() const { return socket_.ok(); }
  int fd() const { return socket_.get(); }
  bool wants_to_write() const { return !outgoing_.empty(); }

 private:
  absl::Status Flush();

  const std::string path_;
  UniqueFd socket_;
  FrameDecoder decoder_;
  std::string outgoing_;
  absl::Duration next_attempt_;
  absl::Duration backoff_ = absl::Milliseconds(5);
};

}  // namespace ampd::agent
