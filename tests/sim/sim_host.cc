#include "tests/sim/sim_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ampd::sim {
namespace {

using v1::Attempt;
using v1::Job;
using v1::Outcome;

constexpr absl::Duration kReportInterval = absl::Seconds(2);
constexpr absl::Duration kStep = absl::Milliseconds(500);
constexpr int kSaveEvery = 6;
constexpr int64_t kStepsLeftOut = 5;  // Early stopping ends a job this many steps before its last step.

std::vector<v1::Device> MakeDevices(int num_devices) {
  std::vector<v1::Device> devices(num_devices);
  for (int i = 0; i < num_devices; ++i) {
    devices[i].set_id(absl::StrCat("cpu", i));
    devices[i].set_kind(v1::Device::CPU);
    devices[i].set_memory_total_bytes(1 << 30);
    devices[i].set_memory_free_bytes(1 << 30);
  }
  return devices;
}

}  // namespace

int64_t LastStepOf(const v1::JobSpec& spec) {
  return spec.train().steps() - (spec.train().has_early_stopping() ? kStepsLeftOut : 0);
}

Host::Host(World* world, std::string name, int num_devices, Hooks hooks)
    : world_(world), name_(std::move(name)), devices_(MakeDevices(num_devices)), hooks_(std::move(hooks)) {}

void Host::StartAgent() {
  if (agent_runs_) {
    return;
  }
  agent_runs_ = true;
  agent_paused_ = false;
  incarnation_ = RandomId(world_->random(), 8);
  sequence_ = 0;
  reflected_.Clear();
  directive_.Clear();
  lease_deadline_ = absl::ZeroDuration();
  last_sent_ = 0;
  waiting_.clear();
  for (Trainer& trainer : trainers_) {
    trainer.held.sent_desired = Job::RUN;
    trainer.held.sent_loss_scale = 0;
    trainer.held.sent_gradient_request = 0;
    trainer.held.sent_profile_request = 0;
    trainer.held.killed = false;
  }
  ReportRegularly(incarnation_);
}

void Host::KillAgent() {
  agent_runs_ = false;
  arrived_while_paused_.clear();
}

void Host::PauseAgent(absl::Duration duration) {
  if (!agent_runs_ || agent_paused_) {
    return;
  }
  agent_paused_ = true;
  world_->After(duration, [this, incarnation = incarnation_] {
    if (!agent_runs_ || incarnation != incarnation_) {
      return;
    }
    agent_paused_ = false;
    for (const v1::WorkerDirective& directive : std::exchange(arrived_while_paused_, {})) {
      Receive(directive);
    }
    Report();
  });
}

void Host::Lose() {
  KillAgent();
  trainers_.clear();
}

bool Host::IsComputing(const Trainer& trainer) const {
  const bool leased = world_->now() <= trainer.held.lease_deadline || world_->bug() == Bug::LEASE_IGNORED;
  return trainer.process && trainer.held.state != Attempt::ENDED && leased;
}

Host::Trainer* Host::Find(const v1::AttemptKey& key) {
  for (Trainer& trainer : trainers_) {
    if (agent::SameAttempt(trainer.held.key, key)) {
      return &trainer;
    }
  }
  return nullptr;
}

agent::Holdings Host::ToHoldings() const {
  agent::Holdings holdings;
  for (const Trainer& trainer : trainers_) {
    holdings.attempts.push_back(trainer.held);
  }
  holdings.devices = devices_;
  holdings.reflected = reflected_;
  holdings.last_sent_boottime_nanos = last_sent_;
  holdings.lease_deadline = lease_deadline_;
  holdings.removals = removals_;
  return holdings;
}

void Host::Receive(const v1::WorkerDirective& received) {
  if (!agent_runs_) {
    return;
  }
  if (agent_paused_) {
    arrived_while_paused_.push_back(received);
    return;
  }
  v1::WorkerDirective directive = received;
  if (world_->bug() == Bug::LEASE_FROM_RECEIPT && directive.renewal_of_boottime_nanos() != 0) {
    directive.set_renewal_of_boottime_nanos(last_sent_);
  }
  const agent::Actions actions = agent::Reconcile(ToHoldings(), directive);
  if (actions.stale) {
    return;
  }
  directive_ = std::move(directive);
  reflected_ = directive_.id();
  Perform(actions, directive_);
}

void Host::Reconcile(bool again) {
  if (agent_runs_ && !agent_paused_ && directive_.has_id()) {
    Perform(agent::Reconcile(ToHoldings(), directive_, again), directive_);
  }
}

void Host::Perform(const agent::Actions& actions, const v1::WorkerDirective& directive) {
  lease_deadline_ = std::max(lease_deadline_, actions.lease_deadline);
  for (const v1::AttemptKey& key : actions.kill) {
    Find(key)->held.killed = true;
    world_->After(world_->Millis(1, 300), [this, key] {
      if (Trainer* trainer = Find(key); trainer != nullptr && trainer->process) {
        End(*trainer, Outcome::FAILED, v1::Reason::PREEMPTED);
      }
    });
  }
  for (const v1::AttemptKey& key : actions.forget) {
    Forget(key, directive);
  }
  for (const agent::RenewAction& renewal : actions.renew) {
    Find(renewal.key)->held.lease_deadline = renewal.lease_deadline;
  }
  for (const agent::LeaveAction& leave : actions.leave) {
    Find(leave.key)->held.sent_desired = leave.desired;
    Find(leave.key)->leave_reason = leave.reason;
  }
  for (const agent::RefuseAction& refusal : actions.refuse) {
    Refuse(refusal);
  }
  for (const agent::StartAction& start : actions.start) {
    StartTrainer(start);
  }
  waiting_ = actions.wait;
  for (const v1::CheckpointKey& key : actions.acknowledge_checkpoints) {
    if (Trainer* trainer = Find(key.attempt()); trainer != nullptr) {
      hooks_.on_checkpoint_acknowledged(key);
      std::erase_if(trainer->unacknowledged, [&](const v1::Checkpoint& other) { return other.step() == key.step(); });
    }
  }
  for (const std::string& path : actions.remove) {
    hooks_.on_delete(path);
    job_folders_.erase(path);
  }
  removals_ = actions.remove_later;
  ReportSoon();
}

void Host::Forget(const v1::AttemptKey& key, const v1::WorkerDirective& directive) {
  const auto& acknowledged = directive.acknowledged_outcomes();
  if (std::any_of(acknowledged.begin(), acknowledged.end(),
                  [&](const v1::AttemptKey& other) { return agent::SameAttempt(other, key); })) {
    hooks_.on_outcome_acknowledged(key);
  }
  trainers_.remove_if([&](const Trainer& trainer) { return agent::SameAttempt(trainer.held.key, key); });
}

void Host::StartTrainer(const agent::StartAction& start) {
  Trainer trainer;
  trainer.held.key = start.directive.key();
  trainer.held.device = world_->bug() == Bug::WRONG_DEVICE ? devices_.front().id() : start.device;
  trainer.held.lease_deadline = start.lease_deadline;
  trainer.last_step = LastStepOf(start.directive.spec());
  if (start.directive.has_start_from()) {
    hooks_.on_load(start.directive.start_from());
    trainer.step = start.directive.start_from().step();
  }
  trainers_.push_back(std::move(trainer));
  world_->After(world_->Millis(100, 2000), [this, key = start.directive.key()] { Step(key); });
}

void Host::Refuse(const agent::RefuseAction& refusal) {
  Trainer trainer;
  trainer.held.key = refusal.key;
  trainer.held.state = Attempt::ENDED;
  trainer.held.occupies_device = false;
  trainer.process = false;
  trainer.outcome = refusal.outcome;
  trainers_.push_back(std::move(trainer));
}

void Host::Step(const v1::AttemptKey& key) {
  Trainer* trainer = Find(key);
  if (trainer == nullptr || !trainer->process) {
    return;
  }
  if (IsComputing(*trainer)) {
    trainer->suspended_since.reset();
    trainer->held.state = Attempt::RUNNING;
    StepOnce(*trainer);
  } else if (!trainer->suspended_since.has_value()) {
    trainer->suspended_since = world_->now();
    trainer->held.state = Attempt::SUSPENDED;
  } else if (world_->now() - *trainer->suspended_since > absl::Seconds(60)) {
    End(*trainer, Outcome::FAILED, v1::Reason::WORKER_LOST);
  }
  trainer = Find(key);
  if (trainer != nullptr && trainer->process) {
    world_->After(kStep, [this, key] { Step(key); });
  }
}

void Host::StepOnce(Trainer& trainer) {
  if (trainer.held.sent_desired == Job::CANCEL) {
    return End(trainer, Outcome::LEFT, v1::Reason::USER_CANCELLED);
  }
  if (trainer.held.sent_desired == Job::PAUSE) {
    Save(trainer);
    return End(trainer, Outcome::LEFT, trainer.leave_reason);
  }
  if (world_->faults && world_->Chance(8)) {
    world_->CountFault();
    return End(trainer, Outcome::FAILED, v1::Reason::TRAINER_CRASHED);
  }
  // If an attempt starts from the checkpoint of the last step, it trains no further step.
  trainer.step = std::min(trainer.step + 1, trainer.last_step);
  if (trainer.step == trainer.last_step) {
    Save(trainer);
    return End(trainer, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  }
  if (trainer.step % kSaveEvery == 0) {
    Save(trainer);
  }
}

void Host::Save(Trainer& trainer) {
  v1::Checkpoint checkpoint;
  const v1::AttemptKey& key = trainer.held.key;
  checkpoint.set_attempt(key.attempt());
  checkpoint.set_step(trainer.step);
  checkpoint.set_path(absl::StrCat(key.job_id(), "/", key.attempt(), "/step-", trainer.step));
  checkpoint.set_manifest_sha256(std::string(64, 'a'));
  checkpoint.set_state_hash(std::string(64, 'b'));
  trainer.unacknowledged.push_back(std::move(checkpoint));
  job_folders_.insert(key.job_id());
}

void Host::End(Trainer& trainer, Outcome::Kind kind, v1::Reason::Code reason) {
  trainer.process = false;
  trainer.held.state = Attempt::ENDED;
  trainer.held.occupies_device = false;
  trainer.outcome.set_kind(kind);
  trainer.outcome.set_reason(reason);
  trainer.outcome.set_last_step(trainer.step);
  Reconcile(/*again=*/true);
  ReportSoon();
}

void Host::ReportSoon() {
  if (report_is_due_) {
    return;
  }
  report_is_due_ = true;
  world_->After(absl::Milliseconds(20), [this] {
    report_is_due_ = false;
    Report();
  });
}

void Host::ReportRegularly(const std::string& incarnation) {
  if (!agent_runs_ || incarnation != incarnation_) {
    return;
  }
  Report();
  world_->After(kReportInterval, [this, incarnation] { ReportRegularly(incarnation); });
}

void Host::Report() {
  if (!agent_runs_ || agent_paused_) {
    return;
  }
  ++sequence_;
  last_sent_ = absl::ToInt64Nanoseconds(world_->now());
  v1::WorkerReport report = BuildReport();
  Tamper(&report);
  hooks_.send(report);
}

v1::WorkerReport Host::BuildReport() const {
  v1::WorkerReport report;
  report.set_worker(name_);
  report.set_incarnation(incarnation_);
  report.mutable_agent()->set_id(name_ + "-state");
  report.set_sequence(sequence_);
  report.set_send_boottime_nanos(last_sent_);
  if (reflected_.number() != 0) {
    *report.mutable_reflected() = reflected_;
  }
  report.mutable_devices()->Assign(devices_.begin(), devices_.end());
  for (const Trainer& trainer : trainers_) {
    v1::AttemptReport& attempt = *report.add_attempts();
    *attempt.mutable_key() = trainer.held.key;
    attempt.set_state(trainer.held.state);
    attempt.set_step(trainer.step);
    if (trainer.held.state == Attempt::ENDED) {
      *attempt.mutable_outcome() = trainer.outcome;
    }
    attempt.mutable_checkpoints()->Assign(trainer.unacknowledged.begin(), trainer.unacknowledged.end());
  }
  for (const v1::AttemptKey& key : waiting_) {
    v1::AttemptReport& attempt = *report.add_attempts();
    *attempt.mutable_key() = key;
    attempt.set_state(Attempt::ASSIGNED);
  }
  return report;
}

void Host::Tamper(v1::WorkerReport* report) const {
  if (world_->bug() == Bug::REFLECTED_TOO_NEW && report->has_reflected()) {
    report->mutable_reflected()->set_number(~uint64_t{0});
  }
  if (world_->bug() == Bug::TOKEN_FORGED) {
    for (v1::AttemptReport& attempt : *report->mutable_attempts()) {
      const auto current = hooks_.current_key(attempt.key().job_id());
      if (attempt.state() == Attempt::ENDED && current.has_value()) {
        *attempt.mutable_key() = *current;
      }
    }
  }
}

}  // namespace ampd::sim
