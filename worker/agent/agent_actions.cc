// Carries out directives.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/agent/agent.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

v1::Outcome CannotStart(const absl::Status& status, int64_t last_step) {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::FAILED);
  // The fault is the worker's own: too many processes, a missing program. Another worker may succeed.
  outcome.set_reason(absl::IsResourceExhausted(status) ? v1::DISK_FULL : v1::DEVICE_ERROR);
  outcome.set_message(absl::StrCat("the worker can't start a trainer: ", std::string(status.message())));
  outcome.set_last_step(last_step);
  return outcome;
}

}  // namespace

Holdings Agent::CurrentHoldings() const {
  Holdings holdings;
  for (const std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    holdings.attempts.push_back(attempt->held);
  }
  holdings.devices = devices_;
  holdings.reflected = directive_.id();
  holdings.last_sent_boottime_nanos = last_sent_boottime_nanos_;
  holdings.lease_deadline = lease_deadline_;
  holdings.removals = remover_.Due(options_.clock->SinceBoot());
  return holdings;
}

void Agent::Take(const v1::WorkerDirective& directive, bool again) {
  const Actions actions = Reconcile(CurrentHoldings(), directive, again);
  if (actions.stale) {
    return;
  }
  if (!again) {
    TellOfAttach();
    directive_ = directive;
    if (FromProto(directive.lease()) > absl::ZeroDuration()) {
      report_interval_ = FromProto(directive.lease()) / 5;
    }
  }
  lease_deadline_ = actions.lease_deadline;
  options_.counters->lease_deadline_nanos = absl::ToInt64Nanoseconds(lease_deadline_);
  for (const v1::AttemptDirective& wanted : directive.attempts()) {
    if (AttemptOnWorker* attempt = Find(wanted.key()); attempt != nullptr) {
      attempt->wanted = wanted;
    }
  }
  Do(actions, directive);
}

// `ampctl dev` waits for this line and shows the text after the colon (client/commands/dev.cc).
void Agent::TellOfAttach() {
  if (std::exchange(attach_told_, true) || !options_.log) {
    return;
  }
  const auto describe = [](std::string* text, const v1::Device& device) {
    absl::StrAppend(text, device.id(), ", ", device.name(), ", ", device.memory_total_bytes() >> 20, " MiB");
  };
  yields_ = false;
  options_.log("the server took this worker: " + absl::StrJoin(devices_, "; ", describe));
}

bool Agent::SendTo(const AttemptOnWorker& attempt, const internal::TrainerCommand& command) {
  SpawnedTrainer* trainer = TrainerOf(attempt);
  if (trainer == nullptr || attempt.told_connection == 0) {
    return false;
  }
  trainer->SendToTrainer(command);
  return true;
}

// Sends loss scale orders and gradient requests to running trainers.
void Agent::PassOn(const Actions& actions) {
  for (const LossScaleAction& order : actions.loss_scale) {
    internal::TrainerCommand command;
    command.mutable_loss_scale()->set_number(order.number);
    *command.mutable_loss_scale()->mutable_order() = order.order;
    if (AttemptOnWorker& attempt = *Find(order.key); SendTo(attempt, command)) {
      attempt.held.told_loss_scale_order = order.number;
    }
  }
  for (const SampleGradientsAction& request : actions.sample_gradients) {
    internal::TrainerCommand command;
    command.mutable_sample_gradients()->set_number(request.number);
    if (AttemptOnWorker& attempt = *Find(request.key); SendTo(attempt, command)) {
      attempt.held.told_gradient_request = request.number;
    }
  }
}

void Agent::Do(const Actions& actions, const v1::WorkerDirective& directive) {
  const absl::Duration suspend_limit = FromProto(directive.suspend_limit());
  for (const v1::AttemptKey& key : actions.kill) {
    AttemptOnWorker& attempt = *Find(key);
    attempt.held.killed = true;
    if (SpawnedTrainer* trainer = TrainerOf(attempt); trainer != nullptr) {
      trainer->Kill();
    }
  }
  for (const v1::AttemptKey& key : actions.forget) {
    AttemptOnWorker& attempt = *Find(key);
    attempt.held.forgotten = true;
    attempt.forgotten_at = options_.clock->SinceBoot();
  }
  for (const RenewAction& renew : actions.renew) {
    AttemptOnWorker& attempt = *Find(renew.key);
    attempt.held.lease_deadline = renew.lease_deadline;
    attempt.suspend_limit = renew.suspend_limit;
    if (SpawnedTrainer* trainer = TrainerOf(attempt); trainer != nullptr) {
      trainer->SetLease(renew.lease_deadline, renew.suspend_limit);
    }
  }
  for (const LeaveAction& leave : actions.leave) {
    Leave(*Find(leave.key), leave.desired, leave.reason);
  }
  PassOn(actions);
  for (const RefuseAction& refuse : actions.refuse) {
    auto attempt = std::make_unique<AttemptOnWorker>();
    attempt->held.key = refuse.key;
    attempt->held.occupies_device = false;
    End(*attempt, refuse.outcome);
    attempts_.push_back(std::move(attempt));
  }
  waiting_ = actions.wait;
  for (const StartAction& start : actions.start) {
    // An attempt assigned while the worker stops would be cut short or left behind. It waits instead, and the server
    // gives it to another worker, or to this one after its restart.
    if (stop_) {
      waiting_.push_back(start.directive.key());
    } else {
      StartAttempt(start, suspend_limit);
      Changed();
    }
  }
  for (const v1::CheckpointKey& key : actions.acknowledge_checkpoints) {
    AcknowledgeCheckpoint(key);
  }
  remover_.Remove(actions.remove, actions.remove_later, options_.clock->SinceBoot());
  // Report at once only after a refusal or an acknowledged outcome. Every report is answered with a directive, so
  // reporting at once for what each directive repeats would never end.
  if (!actions.refuse.empty() || !actions.forget.empty()) {
    Changed();
  }
}

void Agent::StartAttempt(const StartAction& start, absl::Duration suspend_limit) {
  const v1::AttemptKey& key = start.directive.key();
  auto attempt = std::make_unique<AttemptOnWorker>();
  attempt->held.key = key;
  attempt->held.device = start.device;
  // Nothing may compute without a lease: a deadline of now suspends the attempt until a lease comes. An earlier
  // deadline would be wrong, because the suspend limit counts from it.
  attempt->held.lease_deadline = std::max(start.lease_deadline, options_.clock->SinceBoot());
  attempt->suspend_limit = suspend_limit;
  attempt->wanted = start.directive;
  SpawnedTrainer* trainer = nullptr;
  absl::Status status;
  for (const auto& [id, candidate] : trainers_) {
    if (!candidate->bound() && !candidate->exited() && candidate->record().device() == start.device) {
      trainer = candidate.get();
      status = trainer->Bind(key);
    }
  }
  if (trainer == nullptr) {
    absl::StatusOr<SpawnedTrainer*> spawned = Spawn(start.device, &key);
    status = spawned.status();
    trainer = spawned.value_or(nullptr);
  }
  if (status.ok()) {
    attempt->spawn_id = trainer->record().spawn_id();
    trainer->SetLease(attempt->held.lease_deadline, suspend_limit);
  } else {
    options_.log(absl::StrCat("can't start a trainer: ", std::string(status.message())));
    attempt->held.occupies_device = false;
    End(*attempt, CannotStart(status, start.directive.start_from().step()));
  }
  attempts_.push_back(std::move(attempt));
}

void Agent::Leave(AttemptOnWorker& attempt, Job::Desired desired, v1::Reason reason) {
  const absl::Duration now = options_.clock->SinceBoot();
  attempt.held.told = desired;
  attempt.leave_reason = reason;
  attempt.kill_at = now + (desired == Job::CANCEL ? options_.cancel_grace : options_.leave_grace);
  if (attempt.held.state == Attempt::STARTING || attempt.held.state == Attempt::RUNNING) {
    attempt.held.state = Attempt::STOPPING;
    Changed();
  }
  internal::TrainerCommand command;
  command.mutable_leave()->set_desired(desired);
  command.mutable_leave()->set_reason(reason);
  SendTo(attempt, command);
}

void Agent::End(AttemptOnWorker& attempt, v1::Outcome outcome) {
  attempt.held.state = Attempt::ENDED;
  attempt.outcome = std::move(outcome);
  attempt.kill_at.reset();
  Changed();
}

void Agent::AcknowledgeCheckpoint(const v1::CheckpointKey& key) {
  AttemptOnWorker* attempt = Find(key.attempt());
  if (attempt == nullptr) {
    return;
  }
  const size_t num_removed = std::erase_if(
      attempt->checkpoints, [&](const SavedCheckpoint& saved) { return saved.checkpoint.step() == key.step(); });
  SpawnedTrainer* trainer = TrainerOf(*attempt);
  if (num_removed > 0 && trainer != nullptr) {
    internal::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(attempt->telemetry.acknowledged());
    command.mutable_acknowledge()->add_checkpoint_steps(key.step());
    trainer->SendToTrainer(command);
  }
}

}  // namespace ampd::agent
