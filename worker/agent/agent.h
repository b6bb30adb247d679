#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "base/clock.h"
#include "base/ipc/child_reaper.h"
#include "base/random.h"
#include "worker/agent/artifacts/artifact_cache.h"
#include "worker/agent/attempts/attempt.h"
#include "worker/agent/attempts/reconcile.h"
#include "worker/agent/checkpoint_remover.h"
#include "worker/agent/link/server_link.h"
#include "worker/agent/trainers/spawned_trainer.h"

namespace ampd::agent {

// Counters for the agent's metrics. Thread-safe.
struct AgentCounters {
  std::atomic<int64_t> num_reports = 0;
  std::atomic<int64_t> num_directives = 0;
  std::atomic<int64_t> num_attach_streams = 0;
  std::atomic<int64_t> num_trainers_started = 0;
  std::atomic<int64_t> num_trainers_adopted = 0;
  std::atomic<int64_t> num_attempts = 0;  // attempts held at this moment
  std::atomic<int64_t> lease_deadline_nanos = 0;
};

// The worker's one loop: reports what the worker holds, carries out what Reconcile decides, keeps one warm trainer per
// free device, relays the trainers' reports to the server, and cleans up after them. It looks for living trainers
// before its first report. Single-threaded: owner the thread of Run; Stop may be called from any thread.
class Agent {
 public:
  struct Options {
    std::string name;
    std::string version;
    std::string metrics_address;
    v1::AgentIdentity identity;
    std::string state_folder;
    std::string checkpoint_root;
    bool checkpoint_root_shared = false;            // whether all workers see the same checkpoints there
    std::map<std::string, std::string> data_roots;  // name to folder
    std::optional<gid_t> data_group;                // group that owns the files that jobs may read
    SpawnedTrainer::Command command;
    bool warm = true;
    bool stop_trainers_on_exit = false;
    absl::Duration cancel_grace = absl::Seconds(10);
    absl::Duration leave_grace = absl::Minutes(5);
    absl::Duration exit_grace = absl::Seconds(20);
    std::function<std::vector<v1::Device>()> devices;  // the devices' state at the time of the call
    std::function<void(const std::string&)> log;       // takes one line
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;
    ServerLink* link = nullptr;
    ArtifactCache* artifacts = nullptr;
    AgentCounters* counters = nullptr;
  };
  explicit Agent(Options options);
  ~Agent();

  // Finds the shims and trainers that an earlier agent left. Call once, before Run.
  absl::Status Start();
  // Runs until Stop, and then until the server knows that this worker takes no more work, or for one more second. With
  // `stop_trainers_on_exit` it also waits until the trainers have left or were killed.
  void Run();
  void Stop();

 private:
  using Attempts = std::vector<std::unique_ptr<AttemptOnWorker>>;

  // agent.cc: the loop and the reports
  void Turn();
  absl::Duration NextWake(absl::Duration now) const;
  std::vector<pollfd> Descriptors() const;
  void TakeArrivals();
  void MaybeReport(absl::Duration now);
  // Whether Stop was called and the trainers are to end with the agent.
  bool IsLeaving() const;
  void LookAtDevices();
  v1::WorkerReport BuildReport();
  bool Stopping(absl::Duration now);
  void LeaveAll(absl::Duration now);
  bool Announcing(absl::Duration now);
  void MakeWay();

  // agent_actions.cc: directives.
  void Take(const v1::WorkerDirective& directive, bool again);
  Holdings CurrentHoldings() const;
  void Do(const Actions& actions, const v1::WorkerDirective& directive);
  void PassOn(const Actions& actions);
  // Sends to the trainer that runs the attempt. Returns false if no trainer was given the attempt yet.
  bool SendTo(const AttemptOnWorker& attempt, const internal::TrainerCommand& command);
  void StartAttempt(const StartAction& start, absl::Duration suspend_limit);
  void Leave(AttemptOnWorker& attempt, v1::Job::Desired desired, v1::Reason reason);
  void AcknowledgeCheckpoint(const v1::CheckpointKey& key);
  void End(AttemptOnWorker& attempt, v1::Outcome outcome);

  // agent_trainers.cc: shims, trainers, telemetry and logs.
  absl::StatusOr<SpawnedTrainer*> Spawn(const std::string& device, const v1::AttemptKey* key);
  void PollTrainers(absl::Duration now);
  void TakeReport(SpawnedTrainer& trainer, const internal::TrainerReport& report);
  void TakeCheckpoint(AttemptOnWorker& attempt, const internal::TrainerReport& report);
  void TakeWarm(SpawnedTrainer& trainer, const internal::Hello& hello);
  void Tell(AttemptOnWorker& attempt, SpawnedTrainer& trainer);
  internal::TrainerCommand StartCommand(const AttemptOnWorker& attempt) const;
  void TakeState(AttemptOnWorker& attempt, const SpawnedTrainer& trainer);
  void TakeEnd(SpawnedTrainer& trainer);
  void Upload(AttemptOnWorker& attempt);
  void UploadLog(AttemptOnWorker& attempt, absl::Duration now);
  void TellOfAttach();
  void TakeAck(const v1::TelemetryAck& ack);
  void Release(absl::Duration now);
  void KeepWarm(absl::Duration now);
  void ReapShims();

  // agent_artifacts.cc: the artifacts that attempts need.
  void WantArtifacts();
  // Returns true if the attempt needs no artifact, if its artifact is here, or if its trainer was already started with
  // it. Ends the attempt if the artifact can't be had, or if the attempt is to leave before the artifact has arrived.
  bool HasArtifact(AttemptOnWorker& attempt, SpawnedTrainer& trainer);

  AttemptOnWorker* Find(const v1::AttemptKey& key);
  AttemptOnWorker* AttemptOf(const SpawnedTrainer& trainer);
  SpawnedTrainer* TrainerOf(const AttemptOnWorker& attempt);
  void Changed() { report_due_ = true; }

  const Options options_;
  std::string incarnation_;
  bool yields_ = false;  // another agent with this id took its place; this one waits until that one is gone
  std::vector<v1::Device> devices_;
  Attempts attempts_;
  std::map<std::string, std::unique_ptr<SpawnedTrainer>> trainers_;  // by spawn id
  ChildReaper shims_;  // shims that this agent started and that have not ended
  std::vector<v1::AttemptKey> waiting_;
  v1::WorkerDirective directive_;  // the newest directive
  int64_t last_sent_boottime_nanos_ = 0;
  absl::Duration lease_deadline_;
  absl::Duration report_interval_ = absl::Seconds(1);
  absl::Duration next_report_;
  absl::Duration next_log_look_;
  std::map<std::string, absl::Duration> warm_not_before_;  // by device, since boot
  std::map<std::string, std::string> device_errors_;       // by device, from its newest warm trainer; empty: no error
  CheckpointRemover remover_;
  uint64_t report_sequence_ = 0;
  bool attached_ = false;
  bool attach_told_ = false;  // whether it was logged that the server accepted this worker
  bool report_due_ = false;
  bool reconcile_again_ = false;
  std::optional<absl::Duration> leave_until_;  // since boot; set once the agent is stopping
  bool killed_all_ = false;
  uint64_t announced_ = 0;  // sequence of the first report that says that the agent stops; 0: none yet
  std::optional<absl::Duration> announce_until_;  // since boot
  UniqueFd stop_fd_;
  std::atomic<bool> stop_ = false;
};

}  // namespace ampd::agent
