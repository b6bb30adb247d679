#include "worker/agent/trainers/frame_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/ipc/unix_socket.h"
#include "base/status_macros.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(5);
constexpr absl::Duration kLastBackoff = absl::Milliseconds(200);

}  // namespace

bool FrameChannel::MaybeConnect(absl::Duration now) {
  if (connected() || now < next_attempt_) {
    return false;
  }
  absl::StatusOr<UniqueFd> socket = ConnectUnix(path_);
  if (!socket.ok()) {
    next_attempt_ = now + backoff_;
    backoff_ = std::min(backoff_ * 2, kLastBackoff);
    return false;
  }
  socket_ = *std::move(socket);
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  decoder_ = FrameDecoder();
  outgoing_.clear();
  backoff_ = kFirstBackoff;
  next_attempt_ = now + backoff_;
  return true;
}

void FrameChannel::Send(const google::protobuf::MessageLite& message) {
  EncodeFrame(message, &outgoing_);
  Flush().IgnoreError();  // if the connection is lost, the next call of Exchange returns the error
}

absl::Status FrameChannel::Flush() {
  while (!outgoing_.empty()) {
    const ssize_t size = send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (size < 0) {
      return errno == EAGAIN || errno == EINTR ? absl::OkStatus() : ErrnoError(errno, "send to a socket");
    }
    outgoing_.erase(0, size);
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::Exchange(std::vector<std::string>* payloads) {
  char buffer[64 << 10];
  const ssize_t size = recv(socket_.get(), buffer, sizeof(buffer), 0);
  if (size == 0) {
    return Error(absl::StatusCode::kUnavailable, "DISCONNECTED", "the other end closed the connection");
  }
  if (size < 0 && errno != EAGAIN && errno != EINTR) {
    return ErrnoError(errno, "receive from a socket");
  }
  decoder_.Append(std::string_view(buffer, std::max<ssize_t>(size, 0)));
  while (true) {
    AMPD_ASSIGN_OR_RETURN(std::optional<std::string> payload, decoder_.Next());
    if (!payload.has_value()) {
      return Flush();
    }
    payloads->push_back(*std::move(payload));
  }
}

void FrameChannel::Close() { socket_.Reset(); }

}  // namespace ampd::agent
