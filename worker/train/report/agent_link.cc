#include "worker/train/report/agent_link.h"

#include <unistd.h>

#include <utility>

#include "base/text.h"
#include "base/timed_wait.h"

namespace ampd::train {
namespace {

using internal::TrainerCommand;
using internal::TrainerReport;

constexpr int kProtocol = 1;
constexpr size_t kMaxDeviceErrorBytes = 1000;

bool SameKey(const v1::AttemptKey& a, const v1::AttemptKey& b) {
  return a.job_id() == b.job_id() && a.attempt() == b.attempt() && a.token() == b.token();
}

}  // namespace

AgentLink::AgentLink(std::string spawn_folder, TelemetryOutbox& outbox)
    : outbox_(outbox), connection_(std::move(spawn_folder), outbox, *this) {}

void AgentLink::SetDeviceError(const std::string& message) {
  device_error_ = Shortened(ValidUtf8(message), kMaxDeviceErrorBytes);
}

std::optional<internal::StartAttempt> AgentLink::WaitForStart(absl::Duration deadline) {
  absl::MutexLock lock(&mutex_);
  AwaitUntil(mutex_, absl::Condition(this, &AgentLink::StartedOrStopped), deadline);
  return start_;
}

std::optional<internal::LeaveAttempt> AgentLink::leave() const {
  absl::MutexLock lock(&mutex_);
  return leave_;
}

v1::LiveLossScale AgentLink::live_loss_scale() const {
  absl::MutexLock lock(&mutex_);
  return loss_scale_;
}

bool AgentLink::TakeGradientRequest() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(gradients_requested_, false);
}

int AgentLink::TakeProfileRequest() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(num_profile_steps_, 0);
}

void AgentLink::ReportState(const internal::TrainerState& state) {
  {
    absl::MutexLock lock(&mutex_);
    reports_.state = state;
    ++reports_.state_version;
  }
  connection_.Wake();
}

void AgentLink::ReportCheckpoint(const v1::Checkpoint& checkpoint, uint64_t after_sequence) {
  {
    absl::MutexLock lock(&mutex_);
    reports_.checkpoints.push_back({checkpoint, after_sequence});
  }
  connection_.Wake();
}

bool AgentLink::ReportOutcome(const v1::Outcome& outcome, absl::Duration deadline) {
  {
    absl::MutexLock lock(&mutex_);
    reports_.outcome = outcome;
    // The agent cannot read a message with a text that is not UTF-8. The text may contain paths, which may be anything.
    reports_.outcome->set_message(ValidUtf8(outcome.message()));
  }
  connection_.Wake();
  absl::MutexLock lock(&mutex_);
  return AwaitUntil(mutex_, absl::Condition(&reports_.outcome_acknowledged), deadline);
}

void AgentLink::Stop(const internal::LeaveAttempt& leave) {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  if (!leave_.has_value()) {
    leave_ = leave;
  }
}

TrainerReport AgentLink::MakeHello() {
  TrainerReport report;
  report.mutable_hello()->set_protocol(kProtocol);
  report.mutable_hello()->set_pid(getpid());
  report.mutable_hello()->set_ready(true);
  report.mutable_hello()->set_device_error(device_error_);
  absl::MutexLock lock(&mutex_);
  if (start_.has_value()) {
    *report.mutable_hello()->mutable_key() = start_->key();
  }
  return report;
}

std::vector<TrainerReport> AgentLink::UnsentState(AgentConnection::Sent& sent) {
  std::vector<TrainerReport> unsent;
  absl::MutexLock lock(&mutex_);
  if (std::exchange(sent.state_version, reports_.state_version) < reports_.state_version) {
    *unsent.emplace_back().mutable_state() = reports_.state;
  }
  return unsent;
}

std::vector<TrainerReport> AgentLink::UnsentCheckpointsAndOutcome(AgentConnection::Sent& sent) {
  std::vector<TrainerReport> unsent;
  absl::MutexLock lock(&mutex_);
  for (; sent.num_checkpoints < reports_.checkpoints.size(); ++sent.num_checkpoints) {
    const SavedCheckpoint& saved = reports_.checkpoints[sent.num_checkpoints];
    if (!reports_.acknowledged_checkpoints.contains(saved.checkpoint.step())) {
      TrainerReport& report = unsent.emplace_back();
      *report.mutable_checkpoint() = saved.checkpoint;
      report.set_after_sequence(Awaited(saved.after_sequence));
    }
  }
  if (reports_.outcome.has_value() && !std::exchange(sent.outcome, true)) {
    TrainerReport& report = unsent.emplace_back();
    *report.mutable_outcome() = *reports_.outcome;
    report.set_after_sequence(Awaited(outbox_.last_sequence()));
  }
  return unsent;
}

uint64_t AgentLink::Awaited(uint64_t sequence) const { return sequence > outbox_.acknowledged() ? sequence : 0; }

bool AgentLink::OnCommand(const TrainerCommand& command) {
  switch (command.kind_case()) {
    case TrainerCommand::kStart:
      return OnStart(command.start());
    case TrainerCommand::kLeave:
      OnLeave(command.leave());
      return true;
    case TrainerCommand::kLiveLossScale:
      OnLossScale(command.live_loss_scale());
      return true;
    case TrainerCommand::kSampleGradients:
      OnSampleGradients(command.sample_gradients());
      return true;
    case TrainerCommand::kProfile:
      OnProfile(command.profile());
      return true;
    case TrainerCommand::kAcknowledge:
      OnAcknowledge(command.acknowledge());
      return true;
    case TrainerCommand::KIND_NOT_SET:
      return true;  // A newer agent may send commands that this trainer does not know.
  }
  return true;
}

bool AgentLink::OnStart(const internal::StartAttempt& start) {
  absl::MutexLock lock(&mutex_);
  if (!start_.has_value()) {
    start_ = start;
    return true;
  }
  return SameKey(start_->key(), start.key());
}

// A cancel overrides a pause; nothing overrides a cancel.
void AgentLink::OnLeave(const internal::LeaveAttempt& leave) {
  absl::MutexLock lock(&mutex_);
  if (!leave_.has_value() || leave_->desired() != v1::Job::CANCEL) {
    leave_ = leave;
  }
}

void AgentLink::OnLossScale(const v1::LiveLossScale& settings) {
  absl::MutexLock lock(&mutex_);
  if (settings.number() > loss_scale_.number()) {
    loss_scale_ = settings;
  }
}

void AgentLink::OnSampleGradients(const internal::SampleGradients& request) {
  absl::MutexLock lock(&mutex_);
  if (request.number() > last_gradient_request_) {
    last_gradient_request_ = request.number();
    gradients_requested_ = true;
  }
}

void AgentLink::OnProfile(const v1::ProfileRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (request.number() > last_profile_request_) {
    last_profile_request_ = request.number();
    num_profile_steps_ = request.num_steps();
  }
}

void AgentLink::OnAcknowledge(const internal::AcknowledgeTelemetry& acknowledge) {
  outbox_.Acknowledge(acknowledge.sequence());
  absl::MutexLock lock(&mutex_);
  reports_.acknowledged_checkpoints.insert(acknowledge.checkpoint_steps().begin(),
                                           acknowledge.checkpoint_steps().end());
  reports_.outcome_acknowledged =
      reports_.outcome_acknowledged || (reports_.outcome.has_value() && acknowledge.outcome());
}

}  // namespace ampd::train
