#include "worker/agent/attempt_runner.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "worker/agent/attempts/artifact_gate.h"
#include "worker/agent/attempts/outcomes.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

// Maximum time that a trainer may take to exit after its outcome was acknowledged.
constexpr absl::Duration kExitLimit = absl::Seconds(10);

internal::TrainerCommand StartCommand(const AttemptOnWorker& attempt, const AttemptRunner::Options& options,
                                      uint64_t epoch) {
  internal::TrainerCommand command;
  internal::StartAttempt& start = *command.mutable_start();
  *start.mutable_key() = attempt.held.key;
  *start.mutable_spec() = attempt.wanted->spec();
  start.set_precision(attempt.wanted->precision());
  if (attempt.wanted->has_loss_scale()) {
    *start.mutable_loss_scale() = attempt.wanted->loss_scale();
  }
  if (attempt.wanted->has_start_from()) {
    *start.mutable_start_from() = attempt.wanted->start_from();
    start.set_weights_only(attempt.wanted->weights_only());
  }
  *start.mutable_older_checkpoints() = attempt.wanted->older_checkpoints();
  for (const v1::Device& device : *options.devices) {
    if (device.id() == attempt.held.device) {
      *start.mutable_device() = device;
    }
  }
  for (const auto& [name, folder] : options.data_roots) {
    (*start.mutable_data_roots())[name] = folder;
  }
  if (options.data_group.has_value()) {
    start.set_data_group(*options.data_group);
  }
  start.set_checkpoint_root(options.checkpoint_root);
  start.set_epoch(epoch);
  start.set_artifact_folder(options.artifacts->folder());
  start.set_traceparent(FormatTraceparent(attempt.trace));
  return command;
}

}  // namespace

void AttemptRunner::Adopt() {
  for (const auto& [id, trainer] : options_.trainers->trainers()) {
    if (trainer->bound()) {
      AttemptOnWorker& attempt = options_.attempts->Add(trainer->record().key());
      attempt.held.device = trainer->record().device();
      attempt.spawn_id = id;
      JoinTrace(trainer->record().traceparent(), attempt);
      Log("attempt taken over from an earlier agent", attempt);
    }
  }
}

void AttemptRunner::JoinTrace(const std::string& traceparent, AttemptOnWorker& attempt) {
  const std::optional<TraceContext> parent = ParseTraceparent(traceparent);
  if (!attempt.trace.IsSet() && parent.has_value()) {
    attempt.trace = ChildSpan(*parent, *options_.random);
  }
}

void AttemptRunner::Log(const std::string& line, const AttemptOnWorker& attempt, LogFields fields) {
  LogFields all = {{"job_id", attempt.held.key.job_id()}, {"attempt", int64_t{attempt.held.key.attempt()}}};
  all.insert(all.end(), std::make_move_iterator(fields.begin()), std::make_move_iterator(fields.end()));
  AddTrace(attempt.trace, &all);
  options_.log(line, all);
}

bool AttemptRunner::IsBlocked(const SpawnedTrainer& trainer) const {
  const AttemptOnWorker* attempt = options_.attempts->FindBySpawn(trainer.record().spawn_id());
  return attempt != nullptr && attempt->backlog.telemetry().full();
}

bool AttemptRunner::ConsumeReconcileRequest() { return std::exchange(reconcile_requested_, false); }

void AttemptRunner::SetWantedArtifacts() {
  std::set<std::string> wanted;
  for (const auto& attempt : *options_.attempts) {
    if (std::string artifact = ArtifactNeededBy(*attempt); !artifact.empty()) {
      wanted.insert(std::move(artifact));
    }
  }
  options_.artifacts->SetWanted(std::move(wanted));
}

void AttemptRunner::Poll(absl::Duration now) {
  SetWantedArtifacts();
  for (const auto& [id, trainer] : options_.trainers->trainers()) {
    AttemptOnWorker* attempt = options_.attempts->FindBySpawn(id);
    const std::vector<internal::TrainerReport> reports = trainer->Poll(now, /*read_trainer=*/!IsBlocked(*trainer));
    for (const internal::TrainerReport& report : reports) {
      if (report.has_hello()) {
        options_.trainers->OnHello(*trainer, report.hello(), now);
      } else if (attempt != nullptr) {
        OnReport(*attempt, report);
      }
    }
    if (attempt == nullptr) {
      options_.trainers->CheckWarm(*trainer, now);
      continue;
    }
    if (trainer->sent_unreadable() && !attempt->held.killed) {
      Kill(*attempt);  // OnTrainerExit ends the attempt.
    }
    if (trainer->exited()) {
      OnTrainerExit(*attempt, *trainer, now);
      continue;
    }
    UpdateState(*attempt, *trainer);
    MaybeSendStart(*attempt, *trainer);
    if (attempt->kill_at.has_value() && now >= *attempt->kill_at) {
      attempt->kill_at.reset();
      trainer->Kill();
    }
  }
}

void AttemptRunner::OnReport(AttemptOnWorker& attempt, const internal::TrainerReport& report) {
  switch (report.kind_case()) {
    case internal::TrainerReport::kTelemetry:
      CountSteps(attempt, report.telemetry().steps());
      attempt.backlog.AddTelemetry(report.telemetry());
      break;
    case internal::TrainerReport::kCheckpoint: {
      v1::Checkpoint checkpoint = report.checkpoint();
      checkpoint.set_local(!options_.checkpoint_root_shared);
      CountSave(attempt, checkpoint);
      attempt.backlog.AddCheckpoint(std::move(checkpoint), report.after_sequence(), options_.clock->SinceBoot());
      options_.report_soon();
      break;
    }
    case internal::TrainerReport::kOutcome:
      attempt.step = std::max(attempt.step, report.outcome().last_step());
      if (!attempt.outcome.has_value()) {
        attempt.backlog.ExpectTelemetryUpTo(report.after_sequence());
        End(attempt, report.outcome());
      }
      break;
    case internal::TrainerReport::kState:
      OnState(attempt, report.state());
      break;
    default:
      break;
  }
}

void AttemptRunner::CountSteps(const AttemptOnWorker& attempt, const v1::StepColumns& steps) {
  if (options_.times == nullptr || !attempt.wanted.has_value()) {
    return;
  }
  const double num_samples = attempt.wanted->spec().data().batch_size();
  for (int i = 0; i < std::min(steps.sequence_size(), steps.samples_per_second_size()); ++i) {
    const double rate = static_cast<double>(steps.samples_per_second(i));
    if (steps.sequence(i) > attempt.backlog.telemetry().received() && rate > 0) {
      options_.times->AddStep(attempt.wanted->precision(), num_samples / rate);
    }
  }
}

void AttemptRunner::CountSave(AttemptOnWorker& attempt, const v1::Checkpoint& checkpoint) {
  // The steps of an attempt's checkpoints ascend, so a checkpoint of a lower or equal step is a repeated report.
  const bool is_new = checkpoint.step() > attempt.last_saved_step;
  attempt.last_saved_step = std::max(attempt.last_saved_step, checkpoint.step());
  if (options_.times != nullptr && is_new && checkpoint.save_seconds() > 0) {
    options_.times->AddSave(checkpoint.save_seconds());
  }
}

void AttemptRunner::OnState(AttemptOnWorker& attempt, const internal::TrainerState& state) {
  attempt.trainer_state = state.state();
  attempt.step = std::max(attempt.step, state.step());
  if (std::exchange(attempt.precision, state.precision()) != state.precision()) {
    options_.report_soon();
  }
  attempt.emulated = state.emulated();
  attempt.total_steps = state.total_steps();
}

void AttemptRunner::UpdateState(AttemptOnWorker& attempt, const SpawnedTrainer& trainer) {
  if (attempt.held.state == Attempt::ENDED) {
    return;
  }
  const Attempt::State state = LivingState(attempt, trainer.suspended());
  if (std::exchange(attempt.held.state, state) != state) {
    options_.report_soon();
  }
}

void AttemptRunner::MaybeSendStart(AttemptOnWorker& attempt, SpawnedTrainer& trainer) {
  if (attempt.held.state == Attempt::ENDED && attempt.held.forgotten) {
    return;
  }
  if (!trainer.trainer_connected() || attempt.commanded_connection == trainer.num_trainer_connections() ||
      !attempt.wanted.has_value() || !trainer.HasLease(attempt.held.lease_deadline) || !HasArtifact(attempt, trainer)) {
    return;
  }
  attempt.commanded_connection = trainer.num_trainer_connections();
  trainer.SendToTrainer(StartCommand(attempt, options_, epoch_));
  if (attempt.held.sent_desired != Job::RUN) {
    const std::optional<absl::Duration> kill_at = attempt.kill_at;
    Leave(attempt, attempt.held.sent_desired, attempt.leave_reason);
    attempt.kill_at = kill_at;
  }
  attempt.held.sent_loss_scale = 0;
  attempt.held.sent_gradient_request = 0;
  attempt.held.sent_profile_request = 0;
  attempt.backlog.OnTrainerConnected();
  reconcile_requested_ = true;
}

bool AttemptRunner::HasArtifact(AttemptOnWorker& attempt, SpawnedTrainer& trainer) {
  ArtifactState artifact;
  if (const std::string name = ArtifactOf(*attempt.wanted); !name.empty()) {
    const ArtifactCache::Lookup lookup = options_.artifacts->Find(name);
    artifact.is_here = lookup.state == ArtifactCache::Lookup::READY;
    artifact.error = lookup.error;
  }
  const GateDecision decision = CheckArtifact(attempt, trainer.hello(), artifact);
  if (decision.outcome.has_value()) {
    End(attempt, *decision.outcome);
    Kill(attempt);
  }
  return decision.may_start;
}

void AttemptRunner::OnTrainerExit(AttemptOnWorker& attempt, const SpawnedTrainer& trainer, absl::Duration now) {
  if (!std::exchange(attempt.held.occupies_device, false)) {
    return;
  }
  const std::string why_not_ready = options_.trainers->OnExit(trainer, now);
  if (!attempt.outcome.has_value()) {
    const bool is_cancelled = attempt.held.sent_desired == Job::CANCEL;
    if (!is_cancelled && trainer.sent_unreadable()) {
      End(attempt, SentUnreadable(attempt));
    } else if (!is_cancelled && !why_not_ready.empty()) {
      const int64_t last_step = attempt.wanted.has_value() ? attempt.wanted->start_from().step() : attempt.step;
      End(attempt, CannotStartTrainer(absl::InternalError(why_not_ready), last_step));
    } else {
      End(attempt, OutcomeFromExit(attempt, trainer.exit(), trainer.folder().OomIsAGuess()));
    }
  }
  if (attempt.backlog.OnTrainerExit()) {
    // The trainer has exited before sending all of its telemetry. Lower the outcome's last sequence to what the agent
    // received, so that neither the agent nor the server waits for the rest.
    attempt.outcome->set_last_sequence(attempt.backlog.telemetry().received());
  }
  options_.trainers->AllowWarm(attempt.held.device);
  reconcile_requested_ = true;
}

void AttemptRunner::Release(absl::Duration now) {
  for (const auto& attempt : *options_.attempts) {
    SpawnedTrainer* trainer = TrainerOf(*attempt);
    if (!attempt->held.forgotten || trainer == nullptr || trainer->exited() || !attempt->backlog.TelemetryIsDone(now) ||
        attempt->kill_at.has_value() || attempt->held.killed) {
      continue;
    }
    internal::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(attempt->backlog.telemetry().acknowledged());
    command.mutable_acknowledge()->set_outcome(true);
    trainer->SendToTrainer(command);
    attempt->kill_at = now + kExitLimit;
  }
  options_.attempts->RemoveIf([&](const AttemptOnWorker& attempt) {
    const bool is_done = attempt.spawn_id.empty() || attempt.backlog.IsDone(now);
    if (!attempt.held.forgotten || attempt.held.occupies_device || !is_done) {
      return false;
    }
    options_.trainers->Remove(attempt.spawn_id);
    return true;
  });
  options_.trainers->RemoveExited([this](const SpawnedTrainer& trainer) {
    return options_.attempts->FindBySpawn(trainer.record().spawn_id()) != nullptr;
  });
}

}  // namespace ampd::agent
