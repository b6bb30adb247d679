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
#include "worker/agent/artifacts/artifact_cache.h"
#include "worker/agent/attempts/attempt_list.h"
#include "worker/agent/attempts/reconcile.h"
#include "worker/agent/trainers/trainer_pool.h"

namespace ampd::agent {

// AttemptRunner runs the attempts of a worker: it carries out Reconcile's actions on them, and keeps each attempt up to
// date with its trainer. It sends a trainer its start command once the trainer's lease is confirmed and the artifact
// that the attempt needs is here. It sends orders to the trainer, reads its reports, kills it at its deadline, and lets
// it exit once everything of its attempt was sent to the server. AttemptUploads sends telemetry and logs.
// Single-threaded: owner the agent's loop.
//
//   Apply{start} --> trainer assigned --lease, artifact--> start sent --> reports --> outcome --Apply{forget}-->
//   Release
class AttemptRunner {
 public:
  struct Options {
    std::string checkpoint_root;
    bool checkpoint_root_shared = false;
    std::map<std::string, std::string> data_roots;  // name to folder
    std::optional<gid_t> data_group;
    absl::Duration cancel_grace;
    absl::Duration leave_grace;
    std::function<void(const std::string&)> log;  // takes one line
    std::function<void()> report_soon;            // called when the server should learn of a change
    const Clock* clock = nullptr;
    ArtifactCache* artifacts = nullptr;
    AttemptList* attempts = nullptr;
    TrainerPool* trainers = nullptr;
    const std::vector<v1::Device>* devices = nullptr;  // the worker's devices; read for each start command
  };
  explicit AttemptRunner(Options options) : options_(std::move(options)) {}

  // Adds an attempt for each trainer that an earlier agent left and that is bound to an attempt. REQUIRES:
  // TrainerPool::Adopt was called.
  void Adopt();

  // Carries out the actions, which Reconcile made from `directive`. If `may_start` is false, the attempts that should
  // start wait instead.
  void Apply(const Actions& actions, const v1::WorkerDirective& directive, bool may_start);

  // Exchanges messages with all trainers, and updates the attempts from the trainers' reports and exits.
  void Poll(absl::Duration now);
  // Lets a trainer exit once its outcome is durable and its telemetry is stored. Then removes the attempt and the
  // trainer's folder.
  void Release(absl::Duration now);
  // Asks every attempt to save a checkpoint and leave. An attempt that has not left at `deadline`, since boot, is
  // killed.
  void LeaveAll(v1::Reason reason, absl::Duration deadline);

  // Whether the trainer's reports must not be read now, because the telemetry buffer of its attempt is full.
  bool IsBlocked(const SpawnedTrainer& trainer) const;
  // Returns whether the newest directive should be reconsidered, because a device became free or a trainer needs its
  // orders again. Resets that request.
  bool ConsumeReconcileRequest();

 private:
  SpawnedTrainer* TrainerOf(const AttemptOnWorker& attempt) const { return options_.trainers->Find(attempt.spawn_id); }
  void OnReport(AttemptOnWorker& attempt, const internal::TrainerReport& report);
  void OnState(AttemptOnWorker& attempt, const internal::TrainerState& state);
  void OnTrainerExit(AttemptOnWorker& attempt, const SpawnedTrainer& trainer);
  void UpdateState(AttemptOnWorker& attempt, const SpawnedTrainer& trainer);
  // Sends the start command, and repeats a leave command, once per trainer connection and only under a lease that the
  // shim has confirmed.
  void MaybeSendStart(AttemptOnWorker& attempt, SpawnedTrainer& trainer);
  // Sends the command to the attempt's trainer. Returns false, and sends nothing, if the trainer has not got its start
  // command yet.
  bool SendTo(const AttemptOnWorker& attempt, const internal::TrainerCommand& command);
  void SendOrders(const Actions& actions);
  void Start(const StartAction& start);
  void Leave(AttemptOnWorker& attempt, v1::Job::Desired desired, v1::Reason reason);
  void Kill(AttemptOnWorker& attempt);
  void End(AttemptOnWorker& attempt, v1::Outcome outcome);
  void AcknowledgeCheckpoint(const v1::CheckpointKey& key);
  void SetWantedArtifacts();
  // Returns whether the attempt needs no artifact or its artifact is here, as CheckArtifact decides. If CheckArtifact
  // ends the attempt, ends it here and kills its trainer.
  bool HasArtifact(AttemptOnWorker& attempt, SpawnedTrainer& trainer);

  const Options options_;
  uint64_t epoch_ = 0;  // the server's epoch, from the newest directive
  bool reconcile_requested_ = false;
};

}  // namespace ampd::agent
