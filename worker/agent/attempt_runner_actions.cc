// Carries out the actions of a directive.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "worker/agent/attempt_runner.h"
#include "worker/agent/attempts/outcomes.h"

namespace ampd::agent {

using v1::Attempt;
using v1::Job;

void AttemptRunner::Apply(const Actions& actions, const v1::WorkerDirective& directive, bool may_start) {
  epoch_ = directive.id().epoch();
  for (const v1::AttemptDirective& wanted : directive.attempts()) {
    if (AttemptOnWorker* attempt = options_.attempts->Find(wanted.key()); attempt != nullptr) {
      attempt->wanted = wanted;
      JoinTrace(wanted.traceparent(), *attempt);
    }
  }
  for (const v1::AttemptKey& key : actions.kill) {
    Kill(*options_.attempts->Find(key));
  }
  for (const v1::AttemptKey& key : actions.forget) {
    AttemptOnWorker& attempt = *options_.attempts->Find(key);
    attempt.held.forgotten = true;
    attempt.backlog.StartDraining(options_.clock->SinceBoot());
  }
  for (const RenewAction& renew : actions.renew) {
    AttemptOnWorker& attempt = *options_.attempts->Find(renew.key);
    attempt.held.lease_deadline = renew.lease_deadline;
    if (SpawnedTrainer* trainer = TrainerOf(attempt); trainer != nullptr) {
      trainer->SetLease(renew.lease_deadline, renew.suspend_limit);
    }
  }
  for (const LeaveAction& leave : actions.leave) {
    Leave(*options_.attempts->Find(leave.key), leave.desired, leave.reason);
  }
  SendOrders(actions);
  for (const RefuseAction& refuse : actions.refuse) {
    AttemptOnWorker& attempt = options_.attempts->Add(refuse.key);
    attempt.held.occupies_device = false;
    End(attempt, refuse.outcome);
  }
  std::vector<v1::AttemptKey> waiting = actions.wait;
  for (const StartAction& start : actions.start) {
    if (may_start) {
      Start(start);
    } else {
      waiting.push_back(start.directive.key());
    }
  }
  options_.attempts->SetWaiting(std::move(waiting));
  for (const v1::CheckpointKey& key : actions.acknowledge_checkpoints) {
    AcknowledgeCheckpoint(key);
  }
  // Request a report only after a refusal or an acknowledged outcome, because these happen once per attempt. All other
  // actions are repeated by every directive, and the server answers every report with a directive. Reporting after them
  // would cause an endless exchange.
  if (!actions.refuse.empty() || !actions.forget.empty()) {
    options_.report_soon();
  }
}

bool AttemptRunner::SendTo(const AttemptOnWorker& attempt, const internal::TrainerCommand& command) {
  SpawnedTrainer* trainer = TrainerOf(attempt);
  if (trainer == nullptr || attempt.commanded_connection == 0) {
    return false;
  }
  trainer->SendToTrainer(command);
  return true;
}

void AttemptRunner::SendOrders(const Actions& actions) {
  for (const LossScaleAction& change : actions.loss_scale) {
    internal::TrainerCommand command;
    *command.mutable_live_loss_scale() = change.settings;
    if (AttemptOnWorker& attempt = *options_.attempts->Find(change.key); SendTo(attempt, command)) {
      attempt.held.sent_loss_scale = change.settings.number();
    }
  }
  for (const SampleGradientsAction& request : actions.sample_gradients) {
    internal::TrainerCommand command;
    command.mutable_sample_gradients()->set_number(request.number);
    if (AttemptOnWorker& attempt = *options_.attempts->Find(request.key); SendTo(attempt, command)) {
      attempt.held.sent_gradient_request = request.number;
    }
  }
  for (const ProfileAction& profile : actions.profile) {
    internal::TrainerCommand command;
    *command.mutable_profile() = profile.request;
    if (AttemptOnWorker& attempt = *options_.attempts->Find(profile.key); SendTo(attempt, command)) {
      attempt.held.sent_profile_request = profile.request.number();
    }
  }
}

void AttemptRunner::Start(const StartAction& start) {
  AttemptOnWorker& attempt = options_.attempts->Add(start.directive.key());
  attempt.held.device = start.device;
  // An attempt must not compute without a lease. If the worker has no lease, set the deadline to the current time,
  // which suspends the attempt until a lease arrives. A deadline in the past would be wrong: the time limit of the
  // suspension counts from the deadline, so it would end too early.
  attempt.held.lease_deadline = std::max(start.lease_deadline, options_.clock->SinceBoot());
  attempt.wanted = start.directive;
  JoinTrace(start.directive.traceparent(), attempt);
  const absl::StatusOr<SpawnedTrainer*> trainer = options_.trainers->Assign(
      start.device, start.directive.key(), options_.clock->SinceBoot(), FormatTraceparent(attempt.trace));
  if (trainer.ok()) {
    Log("attempt started", attempt, {{"device", start.device}});
    attempt.spawn_id = (*trainer)->record().spawn_id();
    (*trainer)->SetLease(attempt.held.lease_deadline, start.suspend_limit);
  } else {
    Log("can't start a trainer", attempt, {{"detail", std::string(trainer.status().message())}});
    attempt.held.occupies_device = false;
    End(attempt, CannotStartTrainer(trainer.status(), start.directive.start_from().step()));
  }
  options_.report_soon();
}

void AttemptRunner::LeaveAll(v1::Reason::Code reason, absl::Duration deadline) {
  for (const auto& attempt : *options_.attempts) {
    if (attempt->held.state != Attempt::ENDED) {
      Leave(*attempt, Job::PAUSE, reason);
      attempt->kill_at = deadline;
    }
  }
}

void AttemptRunner::Leave(AttemptOnWorker& attempt, Job::Desired desired, v1::Reason::Code reason) {
  const absl::Duration now = options_.clock->SinceBoot();
  attempt.held.sent_desired = desired;
  attempt.leave_reason = reason;
  attempt.kill_at = now + (desired == Job::CANCEL ? options_.cancel_grace : options_.leave_grace);
  if (attempt.held.state == Attempt::STARTING || attempt.held.state == Attempt::RUNNING) {
    attempt.held.state = Attempt::STOPPING;
    options_.report_soon();
  }
  internal::TrainerCommand command;
  command.mutable_leave()->set_desired(desired);
  command.mutable_leave()->set_reason(reason);
  SendTo(attempt, command);
}

void AttemptRunner::Kill(AttemptOnWorker& attempt) {
  attempt.held.killed = true;
  if (SpawnedTrainer* trainer = TrainerOf(attempt); trainer != nullptr) {
    trainer->Kill();
  }
}

void AttemptRunner::End(AttemptOnWorker& attempt, v1::Outcome outcome) {
  attempt.held.state = Attempt::ENDED;
  attempt.outcome = std::move(outcome);
  // The server cannot read a report with a text that is not UTF-8, and the message may contain any path.
  attempt.outcome->set_message(ValidUtf8(attempt.outcome->message()));
  if (options_.on_end) {
    options_.on_end(*attempt.outcome);
  }
  attempt.kill_at.reset();
  Log("attempt ended", attempt,
      {{"outcome", v1::Outcome::Kind_Name(attempt.outcome->kind())},
       {"reason", attempt.outcome->reason() == v1::Reason::REASON_UNSPECIFIED
                      ? ""
                      : v1::Reason::Code_Name(attempt.outcome->reason())},
       {"step", attempt.outcome->last_step()},
       {"detail", attempt.outcome->message()}});
  options_.report_soon();
}

void AttemptRunner::AcknowledgeCheckpoint(const v1::CheckpointKey& key) {
  AttemptOnWorker* attempt = options_.attempts->Find(key.attempt());
  if (attempt == nullptr || !attempt->backlog.AcknowledgeCheckpoint(key.step())) {
    return;
  }
  if (SpawnedTrainer* trainer = TrainerOf(*attempt); trainer != nullptr) {
    internal::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(attempt->backlog.telemetry().acknowledged());
    command.mutable_acknowledge()->add_checkpoint_steps(key.step());
    trainer->SendToTrainer(command);
  }
}

}  // namespace ampd::agent
