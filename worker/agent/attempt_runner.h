#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/clock.h"
#include "base/log_fields.h"
#include "base/random.h"
#include "worker/agent/artifacts/artifact_cache.h"
#include "worker/agent/attempts/attempt_list.h"
#include "worker/agent/attempts/reconcile.h"
#include "worker/agent/trainers/trainer_pool.h"
#include "worker/agent/training_times.h"

namespace ampd::agent {

// Runs the attempts of a worker. AttemptRunner carries out Reconcile's actions on the attempts, and updates each
// attempt from its trainer's reports. It sends a trainer its start command once the trainer's lease is confirmed and
// the artifact that the attempt needs is on this worker. Afterwards it sends orders, reads reports, and kills a
// trainer that was ordered to leave and has not left at the deadline. Once everything of the attempt was sent to the
// server, it lets the trainer exit. AttemptUploads sends telemetry and logs. If the server names a trace for an
// attempt, AttemptRunner adds a span for the attempt to that trace; the trainer's span is a child of this span.
// Single-threaded; owner: the agent's loop.
//
//   Apply{start} --> trainer assigned --lease, artifact--> start sent --> reports --> outcome
//                                                           --Apply{forget}--> Release
class AttemptRunner {
 public:
  struct Options {
    std::string checkpoint_root;
    bool checkpoint_root_shared = false;
    std::map<std::string, std::string> data_roots;  // folder, by name
    std::optional<gid_t> data_group;
    absl::Duration cancel_grace;
    absl::Duration leave_grace;
    // Takes a line about an attempt, and fields to log with the line, among them the attempt's trace.
    std::function<void(const std::string&, const LogFields&)> log;
    std::function<void()> report_soon;               // Called when the server should learn of a change.
    std::function<void(const v1::Outcome&)> on_end;  // Called once for each attempt that ends here; may be null.
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;
    ArtifactCache* artifacts = nullptr;
    AttemptList* attempts = nullptr;
    TrainerPool* trainers = nullptr;
    const std::vector<v1::Device>* devices = nullptr;  // the worker's devices; read for each start command
    TrainingTimes* times = nullptr;                    // null: training times are not measured
  };
  explicit AttemptRunner(Options options) : options_(std::move(options)) {}

  // Adds an attempt for each trainer that an earlier agent left running an attempt. REQUIRES: TrainerPool::Adopt was
  // called.
  void Adopt();

  // Carries out `actions`, which Reconcile derived from `directive`. If `may_start` is false, attempts that should
  // start wait instead.
  void Apply(const Actions& actions, const v1::WorkerDirective& directive, bool may_start);

  // Exchanges messages with all trainers, and updates the attempts from the trainers' reports and exits.
  void Poll(absl::Duration now);
  // Once an attempt's outcome is durable and its telemetry is stored, acknowledges the outcome to the trainer, which
  // then exits. After the exit, removes the attempt and the trainer's folder.
  void Release(absl::Duration now);
  // Orders every attempt to save a checkpoint and leave. Attempts that have not left at `deadline` (a time since boot)
  // are killed.
  void LeaveAll(v1::Reason::Code reason, absl::Duration deadline);

  // Whether the trainer's reports must not be read now, because the telemetry buffer of its attempt is full.
  bool IsBlocked(const SpawnedTrainer& trainer) const;
  // Returns whether the newest directive should be processed again: because a device became free, or because a trainer
  // needs its orders again. Resets the request, so the next call returns false unless there is a new one.
  bool ConsumeReconcileRequest();

 private:
  SpawnedTrainer* TrainerOf(const AttemptOnWorker& attempt) const { return options_.trainers->Find(attempt.spawn_id); }
  // Begins the agent's span for the attempt, as a child of the span that `traceparent` names. Does nothing if the
  // attempt already has a span.
  void JoinTrace(const std::string& traceparent, AttemptOnWorker& attempt);
  void Log(const std::string& line, const AttemptOnWorker& attempt, LogFields fields = {});
  void OnReport(AttemptOnWorker& attempt, const internal::TrainerReport& report);
  void OnState(AttemptOnWorker& attempt, const internal::TrainerState& state);
  // CountSteps and CountSave add the durations of steps and checkpoints to the training times. They skip repeated
  // reports, because a trainer sends its reports again on a new connection.
  void CountSteps(const AttemptOnWorker& attempt, const v1::StepColumns& steps);
  void CountSave(AttemptOnWorker& attempt, const v1::Checkpoint& checkpoint);
  void OnTrainerExit(AttemptOnWorker& attempt, const SpawnedTrainer& trainer, absl::Duration now);
  void UpdateState(AttemptOnWorker& attempt, const SpawnedTrainer& trainer);
  // Sends the start command once per connection to the trainer, and only after the shim has confirmed a lease. If the
  // attempt was ordered to leave, also repeats that order.
  void MaybeSendStart(AttemptOnWorker& attempt, SpawnedTrainer& trainer);
  // Sends the command to the attempt's trainer. Sends nothing and returns false if the trainer has not received its
  // start command yet.
  bool SendTo(const AttemptOnWorker& attempt, const internal::TrainerCommand& command);
  void SendOrders(const Actions& actions);
  void Start(const StartAction& start);
  void Leave(AttemptOnWorker& attempt, v1::Job::Desired desired, v1::Reason::Code reason);
  void Kill(AttemptOnWorker& attempt);
  void End(AttemptOnWorker& attempt, v1::Outcome outcome);
  void AcknowledgeCheckpoint(const v1::CheckpointKey& key);
  void SetWantedArtifacts();
  // Calls CheckArtifact and returns whether the attempt may start. If CheckArtifact returns an outcome, ends the
  // attempt with this outcome and kills the trainer.
  bool HasArtifact(AttemptOnWorker& attempt, SpawnedTrainer& trainer);

  const Options options_;
  uint64_t epoch_ = 0;  // the server's epoch, from the newest directive
  bool reconcile_requested_ = false;
};

}  // namespace ampd::agent
