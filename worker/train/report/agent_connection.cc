#include "worker/train/report/agent_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/ipc/unix_socket.h"
#include "base/status_macros.h"
#include "points/telemetry_batch.h"

namespace ampd::train {
namespace {

using internal::TrainerCommand;
using internal::TrainerReport;

constexpr size_t kMaxOutgoingBytes = 1 << 20;
constexpr size_t kBatchBytes = 256 << 10;

}  // namespace

AgentConnection::AgentConnection(std::string spawn_folder, TelemetryOutbox& outbox, Peer& peer)
    : folder_(std::move(spawn_folder)), outbox_(outbox), peer_(peer) {}

AgentConnection::~AgentConnection() {
  closing_ = true;
  Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

absl::Status AgentConnection::Start() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.ok()) {
    return ErrnoError(errno, "eventfd");
  }
  AMPD_ASSIGN_OR_RETURN(listener_, ListenUnix(folder_ + "/trainer.sock"));
  outbox_.SetListener([this] { Wake(); });
  thread_ = std::thread([this] { Serve(); });
  return absl::OkStatus();
}

void AgentConnection::Wake() {
  const uint64_t one = 1;
  if (wake_.ok()) {
    // The write fails only if the eventfd's counter is full. In that case the thread wakes anyway.
    [[maybe_unused]] const ssize_t count = write(wake_.get(), &one, sizeof(one));
  }
}

void AgentConnection::Serve() {
  while (!closing_) {
    SendPending();
    Flush();
    const auto agent_events = static_cast<short>(POLLIN | (outgoing_.empty() ? 0 : POLLOUT));
    pollfd waits[3] = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {agent_.get(), agent_events, 0}};
    if (poll(waits, 3, -1) < 0) {
      continue;
    }
    if (waits[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t size = read(wake_.get(), &count, sizeof(count));
    }
    // Read what remains in the old connection before Accept replaces it with a new one.
    if ((waits[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      Receive();
    }
    if (waits[0].revents != 0) {
      Accept();
    }
  }
}

void AgentConnection::Accept() {
  auto agent = AcceptUnix(listener_.get());
  if (agent.ok() && fcntl(agent->get(), F_SETFL, O_NONBLOCK) == 0) {
    Disconnect();
    agent_ = *std::move(agent);
  }
}

void AgentConnection::Disconnect() {
  agent_.Reset();
  decoder_ = FrameDecoder();
  outgoing_.clear();
  hello_sent_ = false;
  sent_sequence_ = outbox_.acknowledged();
  sent_ = {};
}

void AgentConnection::Receive() {
  char buffer[1 << 16];
  const ssize_t count = recv(agent_.get(), buffer, sizeof(buffer), 0);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
    return;
  }
  if (count <= 0) {
    Disconnect();
    return;
  }
  decoder_.Append(std::string_view(buffer, static_cast<size_t>(count)));
  for (;;) {
    auto payload = decoder_.Next();
    if (payload.ok() && !payload->has_value()) {
      return;
    }
    TrainerCommand command;
    if (!payload.ok() || !command.ParseFromString(**payload) || !peer_.OnCommand(command)) {
      Disconnect();
      return;
    }
  }
}

void AgentConnection::SendPending() {
  if (!agent_.ok()) {
    return;
  }
  const bool is_new = !std::exchange(hello_sent_, true);
  if (is_new) {
    Send({peer_.MakeHello()});
  }
  Send(peer_.UnsentState(sent_));
  if (is_new) {
    Send(peer_.UnsentCheckpointsAndOutcome(sent_));
  }
  SendPendingTelemetry();
  if (agent_.ok()) {
    Send(peer_.UnsentCheckpointsAndOutcome(sent_));
  }
}

void AgentConnection::SendPendingTelemetry() {
  while (outgoing_.size() < kMaxOutgoingBytes && sent_sequence_ < outbox_.last_sequence()) {
    auto batch = outbox_.Read(sent_sequence_, kBatchBytes);
    if (!batch.ok()) {
      Disconnect();
      return;
    }
    const uint64_t last = std::max({sent_sequence_, outbox_.acknowledged(), points::SequenceRange(*batch).second});
    TrainerReport report;
    *report.mutable_telemetry() = *std::move(batch);
    Send({report});
    sent_sequence_ = last;
  }
}

void AgentConnection::Send(const std::vector<TrainerReport>& reports) {
  for (const TrainerReport& report : reports) {
    EncodeFrame(report, &outgoing_);
  }
}

void AgentConnection::Flush() {
  while (agent_.ok() && !outgoing_.empty()) {
    const ssize_t count = send(agent_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (count > 0) {
      outgoing_.erase(0, static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      Disconnect();
    }
  }
  // If not all telemetry fitted into the outgoing buffer, wake the thread again, so that it sends the rest without
  // waiting for a new record.
  if (agent_.ok() && sent_sequence_ < outbox_.last_sequence()) {
    Wake();
  }
}

}  // namespace ampd::train
