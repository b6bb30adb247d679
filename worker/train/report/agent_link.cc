#include "worker/train/report/agent_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/ipc/unix_socket.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::train {
namespace {

using internal::TrainerCommand;
using internal::TrainerReport;

constexpr size_t kMaxOutgoingBytes = 1 << 20;
constexpr size_t kBatchBytes = 256 << 10;
constexpr int kProtocol = 1;

bool SameKey(const v1::AttemptKey& a, const v1::AttemptKey& b) {
  return a.job_id() == b.job_id() && a.attempt() == b.attempt() && a.token() == b.token();
}

}  // namespace

AgentLink::AgentLink(std::string spawn_folder, TelemetryOutbox& outbox)
    : folder_(std::move(spawn_folder)), outbox_(outbox) {}

AgentLink::~AgentLink() {
  closing_ = true;
  Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

absl::Status AgentLink::Start() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.ok()) {
    return ErrnoError(errno, "eventfd");
  }
  AMPD_ASSIGN_OR_RETURN(listener_, ListenUnix(folder_ + "/trainer.sock"));
  outbox_.SetListener([this] { Wake(); });
  thread_ = std::thread([this] { Serve(); });
  return absl::OkStatus();
}

void AgentLink::Wake() {
  const uint64_t one = 1;
  if (wake_.ok()) {
    // If the counter is full, the thread will wake anyway.
    [[maybe_unused]] const ssize_t count = write(wake_.get(), &one, sizeof(one));
  }
}

bool AgentLink::StartedOrStopped() const { return start_.has_value() || stopped_; }

std::optional<internal::StartAttempt> AgentLink::WaitForStart(absl::Duration deadline) {
  absl::MutexLock lock(&mutex_);
  AwaitUntil(mutex_, absl::Condition(this, &AgentLink::StartedOrStopped), deadline);
  return start_;
}

std::optional<internal::LeaveAttempt> AgentLink::leave() const {
  absl::MutexLock lock(&mutex_);
  return leave_;
}

std::vector<internal::ApplyLossScale> AgentLink::LossScaleOrders(uint64_t after) const {
  absl::MutexLock lock(&mutex_);
  std::vector<internal::ApplyLossScale> newer;
  std::copy_if(orders_.begin(), orders_.end(), std::back_inserter(newer),
               [after](const internal::ApplyLossScale& order) { return order.number() > after; });
  return newer;
}

bool AgentLink::TakeGradientRequest() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(wants_gradients_, false);
}

void AgentLink::ReportState(const internal::TrainerState& state) {
  {
    absl::MutexLock lock(&mutex_);
    state_ = state;
    ++state_version_;
  }
  Wake();
}

void AgentLink::ReportCheckpoint(const v1::Checkpoint& checkpoint, uint64_t after_sequence) {
  {
    absl::MutexLock lock(&mutex_);
    checkpoints_.push_back({checkpoint, after_sequence});
  }
  Wake();
}

bool AgentLink::ReportOutcome(const v1::Outcome& outcome, absl::Duration deadline) {
  absl::MutexLock lock(&mutex_);
  outcome_ = outcome;
  Wake();
  return AwaitUntil(mutex_, absl::Condition(&outcome_taken_), deadline);
}

void AgentLink::Stop(const internal::LeaveAttempt& leave) {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  if (!leave_.has_value()) {
    leave_ = leave;
  }
}

void AgentLink::Serve() {
  while (!closing_) {
    Tell();
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
    // Read the rest of the old connection before the new one replaces it.
    if ((waits[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      Receive();
    }
    if (waits[0].revents != 0) {
      Accept();
    }
  }
}

void AgentLink::Accept() {
  auto agent = AcceptUnix(listener_.get());
  if (agent.ok() && fcntl(agent->get(), F_SETFL, O_NONBLOCK) == 0) {
    Disconnect();
    agent_ = *std::move(agent);
  }
}

void AgentLink::Disconnect() {
  agent_.Reset();
  decoder_ = FrameDecoder();
  outgoing_.clear();
  told_hello_ = false;
  told_sequence_ = outbox_.acknowledged();
  told_state_ = 0;
  told_checkpoints_ = 0;
  told_outcome_ = false;
}

void AgentLink::Receive() {
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
    if (!payload.ok() || !command.ParseFromString(**payload) || !Obey(command)) {
      Disconnect();
      return;
    }
  }
}

bool AgentLink::Obey(const TrainerCommand& command) {
  absl::MutexLock lock(&mutex_);
  switch (command.kind_case()) {
    case TrainerCommand::kStart:
      return Bind(command.start());
    case TrainerCommand::kLeave:
      // A cancel overrides a pause; nothing overrides a cancel.
      if (!leave_.has_value() || leave_->desired() != v1::Job::CANCEL) {
        leave_ = command.leave();
      }
      return true;
    case TrainerCommand::kLossScale:
      if (orders_.empty() || command.loss_scale().number() > orders_.back().number()) {
        const v1::LossScaleOrder& order = command.loss_scale().order();
        std::erase_if(orders_, [&order](const internal::ApplyLossScale& before) {
          return (order.has_scale() || !before.order().has_scale()) &&
                 (order.has_growth_interval() || !before.order().has_growth_interval());
        });
        orders_.push_back(command.loss_scale());
      }
      return true;
    case TrainerCommand::kSampleGradients:
      if (command.sample_gradients().number() > last_gradient_request_) {
        last_gradient_request_ = command.sample_gradients().number();
        wants_gradients_ = true;
      }
      return true;
    case TrainerCommand::kAcknowledge:
      outbox_.Acknowledge(command.acknowledge().sequence());
      acknowledged_checkpoints_.insert(command.acknowledge().checkpoint_steps().begin(),
                                       command.acknowledge().checkpoint_steps().end());
      outcome_taken_ = outcome_taken_ || (outcome_.has_value() && command.acknowledge().outcome());
      return true;
    case TrainerCommand::KIND_NOT_SET:
      return true;  // A command of a later agent version.
  }
  return true;
}

bool AgentLink::Bind(const internal::StartAttempt& start) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!start_.has_value()) {
    start_ = start;
    return true;
  }
  return SameKey(start_->key(), start.key());
}

void AgentLink::Tell() {
  if (!agent_.ok()) {
    return;
  }
  const bool is_new = !told_hello_;
  TellHello();
  TellState();
  if (is_new) {
    TellCheckpoints();
    TellOutcome();
  }
  TellTelemetry();
  TellCheckpoints();
  TellOutcome();
}

void AgentLink::TellState() {
  TrainerReport state;
  {
    absl::MutexLock lock(&mutex_);
    if (state_version_ > told_state_) {
      told_state_ = state_version_;
      *state.mutable_state() = state_;
    }
  }
  if (state.has_state()) {
    Send(state);
  }
}

void AgentLink::TellHello() {
  if (told_hello_) {
    return;
  }
  TrainerReport report;
  report.mutable_hello()->set_protocol(kProtocol);
  report.mutable_hello()->set_pid(getpid());
  report.mutable_hello()->set_ready(true);
  report.mutable_hello()->set_device_error(device_error_);
  {
    absl::MutexLock lock(&mutex_);
    if (start_.has_value()) {
      *report.mutable_hello()->mutable_key() = start_->key();
    }
  }
  Send(report);
  told_hello_ = true;
}

void AgentLink::TellTelemetry() {
  while (outgoing_.size() < kMaxOutgoingBytes && told_sequence_ < outbox_.last_sequence()) {
    const auto batch = outbox_.Read(told_sequence_, kBatchBytes);
    if (!batch.ok()) {
      Disconnect();
      return;
    }
    uint64_t last = std::max(told_sequence_, outbox_.acknowledged());
    for (const uint64_t sequence : batch->steps().sequence()) {
      last = std::max(last, sequence);
    }
    for (const v1::EvalPoint& eval : batch->evals()) {
      last = std::max(last, eval.sequence());
    }
    for (const v1::Event& event : batch->events()) {
      last = std::max(last, event.attempt_sequence());
    }
    for (const v1::Sample& sample : batch->samples()) {
      last = std::max(last, sample.attempt_sequence());
    }
    TrainerReport report;
    *report.mutable_telemetry() = *batch;
    Send(report);
    told_sequence_ = last;
  }
}

void AgentLink::TellCheckpoints() {
  absl::MutexLock lock(&mutex_);
  for (; told_checkpoints_ < checkpoints_.size(); ++told_checkpoints_) {
    const SavedCheckpoint& saved = checkpoints_[told_checkpoints_];
    if (acknowledged_checkpoints_.count(saved.checkpoint.step()) == 0) {
      TrainerReport report;
      *report.mutable_checkpoint() = saved.checkpoint;
      report.set_after_sequence(Awaited(saved.after_sequence));
      Send(report);
    }
  }
}

void AgentLink::TellOutcome() {
  absl::MutexLock lock(&mutex_);
  if (!outcome_.has_value() || told_outcome_) {
    return;
  }
  TrainerReport report;
  *report.mutable_outcome() = *outcome_;
  report.set_after_sequence(Awaited(outbox_.last_sequence()));
  Send(report);
  told_outcome_ = true;
}

uint64_t AgentLink::Awaited(uint64_t sequence) const { return sequence > outbox_.acknowledged() ? sequence : 0; }

void AgentLink::Send(const TrainerReport& report) { EncodeFrame(report, &outgoing_); }

void AgentLink::Flush() {
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
  // Telemetry that did not fit continues without waiting for a new record.
  if (agent_.ok() && told_sequence_ < outbox_.last_sequence()) {
    Wake();
  }
}

}  // namespace ampd::train
