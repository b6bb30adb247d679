// Shims, trainers, and the traffic between them and the server.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/agent.h"
#include "worker/shim/attempt_log.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

constexpr absl::Duration kLogInterval = absl::Milliseconds(300);
constexpr int64_t kLogChunkBytes = 64 << 10;
// Once an attempt's outcome is durable, the rest of its telemetry and log has this long to be sent. Each stored
// telemetry batch restarts the time.
constexpr absl::Duration kDrainLimit = absl::Minutes(2);
constexpr absl::Duration kLogDrainLimit = absl::Seconds(10);
// Time for a trainer to exit after its outcome was acknowledged.
constexpr absl::Duration kExitLimit = absl::Seconds(10);
// Minimum interval between starts of warm trainers on one device.
constexpr absl::Duration kWarmInterval = absl::Seconds(5);
// The same interval when the last one could not use the device.
constexpr absl::Duration kBrokenDeviceInterval = absl::Minutes(1);

// The end of that time, since boot.
absl::Duration DrainDeadline(const AttemptOnWorker& attempt) {
  return std::max(attempt.forgotten_at, attempt.telemetry_stored_at) + kDrainLimit;
}

}  // namespace

AttemptOnWorker* Agent::Find(const v1::AttemptKey& key) {
  for (std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    if (SameAttempt(attempt->held.key, key)) {
      return attempt.get();
    }
  }
  return nullptr;
}

AttemptOnWorker* Agent::AttemptOf(const SpawnedTrainer& trainer) {
  for (std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    if (attempt->spawn_id == trainer.record().spawn_id()) {
      return attempt.get();
    }
  }
  return nullptr;
}

SpawnedTrainer* Agent::TrainerOf(const AttemptOnWorker& attempt) {
  const auto found = trainers_.find(attempt.spawn_id);
  return found == trainers_.end() ? nullptr : found->second.get();
}

absl::StatusOr<SpawnedTrainer*> Agent::Spawn(const std::string& device, const v1::AttemptKey* key) {
  internal::SpawnRecord record;
  record.set_spawn_id(RandomId(*options_.random, 16));
  record.set_token(RandomId(*options_.random, 26));
  record.set_device(device);
  if (key != nullptr) {
    *record.mutable_key() = *key;
  }
  absl::StatusOr<std::unique_ptr<SpawnedTrainer>> trainer =
      SpawnedTrainer::Start(options_.state_folder, record, options_.command, shims_);
  if (!trainer.ok()) {
    return trainer.status();
  }
  ++options_.counters->num_trainers_started;
  SpawnedTrainer* started = trainer->get();
  trainers_[record.spawn_id()] = *std::move(trainer);
  return started;
}

void Agent::PollTrainers(absl::Duration now) {
  for (const auto& [id, trainer] : trainers_) {
    AttemptOnWorker* attempt = AttemptOf(*trainer);
    const bool read = attempt == nullptr || !attempt->telemetry.full();
    for (const internal::TrainerReport& report : trainer->Poll(now, read)) {
      TakeReport(*trainer, report);
    }
    if (attempt == nullptr) {
      continue;
    }
    if (trainer->exited()) {
      TakeEnd(*trainer);
      continue;
    }
    TakeState(*attempt, *trainer);
    Tell(*attempt, *trainer);
    if (attempt->kill_at.has_value() && now >= *attempt->kill_at) {
      attempt->kill_at.reset();
      trainer->Kill();
    }
  }
  const bool look_at_logs = now >= next_log_look_;
  for (std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    Upload(*attempt);
    if (look_at_logs || attempt->held.forgotten) {
      UploadLog(*attempt, now);
    }
  }
  next_log_look_ = look_at_logs ? now + kLogInterval : next_log_look_;
  options_.counters->num_attempts = static_cast<int64_t>(attempts_.size());
}

// A warm trainer that can't use its device is ended, and the device is reported as unhealthy until a later one can.
void Agent::TakeWarm(SpawnedTrainer& trainer, const internal::Hello& hello) {
  const std::string& device = trainer.record().device();
  std::string& known = device_errors_[device];
  if (known != hello.device_error()) {
    known = hello.device_error();
    options_.log(known.empty() ? absl::StrCat(device, " can be used again")
                               : absl::StrCat(device, " can't be used: ", known));
    Changed();
  }
  if (!known.empty()) {
    warm_not_before_[device] = options_.clock->SinceBoot() + kBrokenDeviceInterval;
    trainer.Kill();
  }
}

void Agent::TakeReport(SpawnedTrainer& trainer, const internal::TrainerReport& report) {
  AttemptOnWorker* attempt = AttemptOf(trainer);
  if (attempt == nullptr) {
    if (report.has_hello()) {
      TakeWarm(trainer, report.hello());
    }
    return;
  }
  switch (report.kind_case()) {
    case internal::TrainerReport::kTelemetry:
      attempt->telemetry.Add(report.telemetry());
      break;
    case internal::TrainerReport::kCheckpoint:
      TakeCheckpoint(*attempt, report);
      break;
    case internal::TrainerReport::kOutcome:
      attempt->step = std::max(attempt->step, report.outcome().last_step());
      if (!attempt->outcome.has_value()) {
        attempt->outcome_after_sequence = report.after_sequence();
        End(*attempt, report.outcome());
      }
      break;
    case internal::TrainerReport::kState:
      attempt->trainer_state = report.state().state();
      attempt->step = std::max(attempt->step, report.state().step());
      if (attempt->precision != report.state().precision()) {
        Changed();
      }
      attempt->precision = report.state().precision();
      attempt->emulated = report.state().emulated();
      attempt->total_steps = report.state().total_steps();
      break;
    default:
      break;
  }
}

void Agent::TakeCheckpoint(AttemptOnWorker& attempt, const internal::TrainerReport& report) {
  std::erase_if(attempt.checkpoints,
                [&](const SavedCheckpoint& saved) { return saved.checkpoint.step() == report.checkpoint().step(); });
  SavedCheckpoint& saved = attempt.checkpoints.emplace_back();
  saved.checkpoint = report.checkpoint();
  saved.checkpoint.set_local(!options_.checkpoint_root_shared);
  // A trainer of an earlier version sends no sequence; it reports a checkpoint after the telemetry before it.
  saved.after_sequence = report.after_sequence() > 0 ? report.after_sequence() : attempt.telemetry.received();
  saved.seen_at = options_.clock->SinceBoot();
  Changed();
}

internal::TrainerCommand Agent::StartCommand(const AttemptOnWorker& attempt) const {
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
  }
  *start.mutable_older_checkpoints() = attempt.wanted->older_checkpoints();
  for (const v1::Device& device : devices_) {
    if (device.id() == attempt.held.device) {
      *start.mutable_device() = device;
    }
  }
  for (const auto& [name, folder] : options_.data_roots) {
    (*start.mutable_data_roots())[name] = folder;
  }
  if (options_.data_group.has_value()) {
    start.set_data_group(*options_.data_group);
  }
  start.set_checkpoint_root(options_.checkpoint_root);
  start.set_epoch(directive_.id().epoch());
  start.set_artifact_folder(options_.artifacts->folder());
  return command;
}

// Sends the start command, and repeats a leave command, once per trainer connection and only under a lease that the
// shim has confirmed.
void Agent::Tell(AttemptOnWorker& attempt, SpawnedTrainer& trainer) {
  if (attempt.held.state == Attempt::ENDED && attempt.held.forgotten) {
    return;
  }
  if (!trainer.trainer_connected() || attempt.told_connection == trainer.num_trainer_connections() ||
      !attempt.wanted.has_value() || !trainer.HasLease(attempt.held.lease_deadline)) {
    return;
  }
  if (!HasArtifact(attempt, trainer)) {
    return;
  }
  attempt.told_connection = trainer.num_trainer_connections();
  trainer.SendToTrainer(StartCommand(attempt));
  if (attempt.held.told != Job::RUN) {
    const std::optional<absl::Duration> kill_at = attempt.kill_at;
    Leave(attempt, attempt.held.told, attempt.leave_reason);
    attempt.kill_at = kill_at;
  }
  attempt.held.told_loss_scale_order = 0;
  attempt.held.told_gradient_request = 0;
  attempt.told_acknowledged = 0;
  reconcile_again_ = true;
}

void Agent::TakeState(AttemptOnWorker& attempt, const SpawnedTrainer& trainer) {
  if (attempt.held.state == Attempt::ENDED) {
    return;
  }
  Attempt::State state = attempt.trainer_state == Attempt::RUNNING ? Attempt::RUNNING : Attempt::STARTING;
  if (trainer.suspended() && state == Attempt::RUNNING) {
    state = Attempt::SUSPENDED;
  } else if (attempt.held.told != Job::RUN) {
    state = Attempt::STOPPING;
  }
  if (std::exchange(attempt.held.state, state) != state) {
    Changed();
  }
}

void Agent::TakeEnd(SpawnedTrainer& trainer) {
  AttemptOnWorker& attempt = *AttemptOf(trainer);
  if (!std::exchange(attempt.held.occupies_device, false)) {
    return;
  }
  if (!attempt.outcome.has_value()) {
    End(attempt, OutcomeFromExit(attempt, trainer.exit(), trainer.folder().OomIsAGuess()));
  }
  if (std::exchange(attempt.outcome_after_sequence, 0) > attempt.telemetry.received()) {
    // The rest is lost with the trainer; nobody should wait for it.
    attempt.outcome->set_last_sequence(attempt.telemetry.received());
  }
  warm_not_before_.erase(attempt.held.device);
  reconcile_again_ = true;
}

void Agent::Upload(AttemptOnWorker& attempt) {
  while (const v1::TelemetryBatch* batch = attempt.telemetry.Next()) {
    v1::TelemetryUpload upload;
    upload.set_worker(options_.name);
    *upload.mutable_key() = attempt.held.key;
    *upload.mutable_batch() = *batch;
    if (!options_.link->SendTelemetry(upload)) {
      return;
    }
    attempt.telemetry.Sent();
  }
}

// Uploads one chunk at a time: the next follows when the server has stored this one.
void Agent::UploadLog(AttemptOnWorker& attempt, absl::Duration now) {
  SpawnedTrainer* trainer = TrainerOf(attempt);
  if (trainer == nullptr || attempt.telemetry.refused()) {
    attempt.log_drained = true;
    return;
  }
  if (attempt.log_sent_bytes > attempt.log_stored_bytes) {
    attempt.log_drained = attempt.held.forgotten && now > attempt.forgotten_at + kLogDrainLimit;
    return;
  }
  const absl::StatusOr<shim::LogPart> part =
      shim::ReadAttemptLog(trainer->folder().path(), attempt.log_sent_bytes, kLogChunkBytes);
  if (!part.ok() || part->content.empty()) {
    attempt.log_drained = trainer->exited();
    return;
  }
  v1::TelemetryUpload upload;
  upload.set_worker(options_.name);
  *upload.mutable_key() = attempt.held.key;
  upload.mutable_log()->set_offset_bytes(part->offset_bytes);
  upload.mutable_log()->set_content(part->content);
  upload.mutable_log()->set_dropped_bytes(part->dropped_bytes);
  if (options_.link->SendTelemetry(upload)) {
    attempt.log_sent_bytes = part->offset_bytes + static_cast<int64_t>(part->content.size());
  }
}

void Agent::TakeAck(const v1::TelemetryAck& ack) {
  AttemptOnWorker* attempt = Find(ack.key());
  if (attempt == nullptr) {
    return;
  }
  const uint64_t stored_before = attempt->telemetry.acknowledged();
  if (ack.refused()) {
    attempt->telemetry.Refuse();
  } else {
    attempt->telemetry.Acknowledge(ack.stored_sequence());
    attempt->log_stored_bytes = std::max(attempt->log_stored_bytes, ack.stored_log_bytes());
    attempt->log_sent_bytes = std::max(attempt->log_sent_bytes, attempt->log_stored_bytes);
  }
  if (std::any_of(attempt->checkpoints.begin(), attempt->checkpoints.end(), [&](const SavedCheckpoint& saved) {
        return saved.after_sequence > stored_before && saved.after_sequence <= attempt->telemetry.acknowledged();
      })) {
    Changed();
  }
  if (attempt->telemetry.acknowledged() > stored_before) {
    attempt->telemetry_stored_at = options_.clock->SinceBoot();
  }
  SpawnedTrainer* trainer = TrainerOf(*attempt);
  if (trainer != nullptr && attempt->telemetry.acknowledged() > attempt->told_acknowledged) {
    attempt->told_acknowledged = attempt->telemetry.acknowledged();
    internal::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(attempt->told_acknowledged);
    trainer->SendToTrainer(command);
  }
}

// An agent that is a container's first process also gets orphaned processes as children.
void Agent::ReapShims() {
  shims_.Reap();
  ReapAdopted([](pid_t) { return false; });
}

// Lets trainers exit whose outcome is durable and whose telemetry is stored, and removes what is left of them.
void Agent::Release(absl::Duration now) {
  for (std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    SpawnedTrainer* trainer = TrainerOf(*attempt);
    if (!attempt->held.forgotten || trainer == nullptr || trainer->exited()) {
      continue;
    }
    const bool drained = TelemetryIsStored(*attempt) || now > DrainDeadline(*attempt);
    if (drained && !attempt->kill_at.has_value() && !attempt->held.killed) {
      internal::TrainerCommand command;
      command.mutable_acknowledge()->set_sequence(attempt->telemetry.acknowledged());
      command.mutable_acknowledge()->set_outcome(true);
      trainer->SendToTrainer(command);
      attempt->kill_at = now + kExitLimit;
    }
  }
  std::erase_if(attempts_, [&](const std::unique_ptr<AttemptOnWorker>& attempt) {
    const bool drained = (TelemetryIsStored(*attempt) && attempt->log_drained) || now > DrainDeadline(*attempt);
    if (!attempt->held.forgotten || attempt->held.occupies_device || !(drained || attempt->spawn_id.empty())) {
      return false;
    }
    if (SpawnedTrainer* trainer = TrainerOf(*attempt); trainer != nullptr) {
      trainer->folder().Remove();
      trainers_.erase(attempt->spawn_id);
    }
    return true;
  });
  std::erase_if(trainers_, [&](const auto& entry) {
    const bool unused = entry.second->exited() && AttemptOf(*entry.second) == nullptr;
    if (unused) {
      entry.second->folder().Remove();
    }
    return unused;
  });
}

void Agent::KeepWarm(absl::Duration now) {
  if (!options_.warm) {
    return;
  }
  for (const v1::Device& device : devices_) {
    const bool used = std::any_of(trainers_.begin(), trainers_.end(), [&](const auto& entry) {
      return !entry.second->exited() && entry.second->record().device() == device.id();
    });
    absl::Duration& not_before = warm_not_before_[device.id()];
    if (used || now < not_before) {
      continue;
    }
    not_before = now + kWarmInterval;
    if (absl::StatusOr<SpawnedTrainer*> warm = Spawn(device.id(), nullptr); !warm.ok()) {
      options_.log(absl::StrCat("can't keep a warm trainer: ", std::string(warm.status().message())));
    }
  }
}

}  // namespace ampd::agent
