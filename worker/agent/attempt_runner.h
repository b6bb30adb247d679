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

// AttemptRunner runs the attempts of a worker: it carries out Reconcile's actions on them, and keeps each attempt in
// step with its trainer. It starts a trainer's work under a confirmed lease and with its artifact, sends it orders,
// reads its reports, ends it when its time is over, and lets it exit when nothing of its attempt is left. Telemetry and
// logs are AttemptUploads' part. Single-threaded: owner the agent's loop.
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
    std::function<void()> report_soon;            // the server should learn of a change
    const Clock* clock = nullptr;
    ArtifactCache* artifacts = nullptr;
    AttemptList* attempts = nullptr;
    TrainerPool* trainers = nullptr;
    const std::vector<v1::Device>* devices = nullptr;  // the worker's; read when a trainer is started
  };
  explicit AttemptRunner(Options options) : options_(std::move(options)) {}

  // Makes an attempt for each bound trainer that an earlier agent left. REQUIRES: the trainers are adopted.
  void Adopt();

  // Carries out the actions, which Reconcile made from `directive`. With `may_start` false, attempts to be started wait
  // instead.
  void Apply(const Actions& actions, const v1::WorkerDirective& directive, bool may_start);

  // Exchanges messages with all trainers, and notices what has become of them.
  void Poll(absl::Duration now);
  // Lets trainers exit whose outcome is durable and whose telemetry is stored, and removes what is left of them.
  void Release(absl::Duration now);
  // Asks every attempt to save a checkpoint and leave; kills those that have not at `deadline`.
  void LeaveAll(v1::Reason reason, absl::Duration deadline);

  // Whether the trainer must not be read: the relay of its attempt is full.
  bool IsBlocked(const SpawnedTrainer& trainer) const;
  // Returns whether the newest directive should be reconsidered, because a device became free or a trainer needs its
  // orders again, and resets that.
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
  // Returns false if no trainer was given the attempt yet.
  bool SendTo(const AttemptOnWorker& attempt, const internal::TrainerCommand& command);
  void SendOrders(const Actions& actions);
  void Start(const StartAction& start);
  void Leave(AttemptOnWorker& attempt, v1::Job::Desired desired, v1::Reason reason);
  void Kill(AttemptOnWorker& attempt);
  void End(AttemptOnWorker& attempt, v1::Outcome outcome);
  void AcknowledgeCheckpoint(const v1::CheckpointKey& key);
  void SetWantedArtifacts();
  // Whether the attempt needs no artifact, or its artifact is here. Ends an attempt that will not get it.
  bool HasArtifact(AttemptOnWorker& attempt, SpawnedTrainer& trainer);

  const Options options_;
  uint64_t epoch_ = 0;  // the server's, from the newest directive
  bool reconcile_requested_ = false;
};

}  // namespace ampd::agent
