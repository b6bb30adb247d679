#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ampd/v1/worker_service.pb.h"
#include "tests/sim/sim_world.h"
#include "worker/agent/attempts/reconcile.h"

namespace ampd::sim {

// Returns the step at which trainers finish a job with this spec. This is the last step or, with train.early_stopping,
// an earlier one. Jobs with early stopping must be evaluated at every step.
int64_t LastStepOf(const v1::JobSpec& spec);

// One worker's host, with its agent, and with trainers and their shims. The agent decides with the real Reconcile
// function. Trainers keep running when the agent ends. They are scripted: they train steps, save checkpoints, crash,
// finish and exit. Single-threaded.
class Host {
 public:
  struct Hooks {
    // Sends the agent's report to the server, over the simulated network.
    std::function<void(const v1::WorkerReport&)> send;
    // Called when the host has deleted the files of a checkpoint.
    std::function<void(const std::string& path)> on_delete;
    // Called when the agent forgets an outcome because the server acknowledged that it is durable.
    std::function<void(const v1::AttemptKey&)> on_outcome_acknowledged;
    std::function<void(const v1::CheckpointKey&)> on_checkpoint_acknowledged;
    // Called with the checkpoint that a trainer loads.
    std::function<void(const v1::Checkpoint&)> on_load;
    // Returns the key of the job's current attempt, or nullopt if it has none. A host with the
    // planted bug TOKEN_FORGED forges this key's token.
    std::function<std::optional<v1::AttemptKey>(const std::string& job)> current_key;
  };

  Host(World* world, std::string name, int num_devices, Hooks hooks);

  const std::string& name() const { return name_; }
  const std::string& incarnation() const { return incarnation_; }
  void StartAgent();
  // Kills the agent; its trainers keep running.
  void KillAgent();
  // Suspends the agent for `duration`, in the way of SIGSTOP. Messages that arrive meanwhile wait.
  void PauseAgent(absl::Duration duration);
  // Ends all processes of the host, as if the machine had failed. The files on its disk remain.
  void Lose();
  bool agent_runs() const { return agent_runs_; }

  void Receive(const v1::WorkerDirective& received);

  // Calls `visit` with each attempt whose trainer is computing, and with the device that the trainer uses.
  template <typename Visit>
  void ForEachComputing(Visit&& visit) const {
    for (const Trainer& trainer : trainers_) {
      if (IsComputing(trainer)) {
        visit(trainer.held.key, trainer.held.device);
      }
    }
  }
  // The jobs that have files in the host's checkpoint root.
  const std::set<std::string>& job_folders() const { return job_folders_; }

 private:
  struct Trainer {
    agent::HeldAttempt held;
    bool process = true;  // Whether the trainer's process exists.
    int64_t step = 0;
    int64_t last_step = 0;  // The step at which the trainer finishes.
    v1::Reason::Code leave_reason = v1::Reason::REASON_UNSPECIFIED;
    std::optional<absl::Duration> suspended_since;
    std::vector<v1::Checkpoint> unacknowledged;
    v1::Outcome outcome;
  };
  using Trainers = std::list<Trainer>;

  bool IsComputing(const Trainer& trainer) const;
  Trainer* Find(const v1::AttemptKey& key);
  agent::Holdings ToHoldings() const;
  void Reconcile(bool again);
  void Perform(const agent::Actions& actions, const v1::WorkerDirective& directive);
  void Forget(const v1::AttemptKey& key, const v1::WorkerDirective& directive);
  void StartTrainer(const agent::StartAction& start);
  void Refuse(const agent::RefuseAction& refusal);
  void Step(const v1::AttemptKey& key);
  void StepOnce(Trainer& trainer);
  void Save(Trainer& trainer);
  void End(Trainer& trainer, v1::Outcome::Kind kind, v1::Reason::Code reason);
  void ReportSoon();
  void Report();
  void ReportRegularly(const std::string& incarnation);
  v1::WorkerReport BuildReport() const;
  void Tamper(v1::WorkerReport* report) const;

  World* const world_;
  const std::string name_;
  const std::vector<v1::Device> devices_;
  const Hooks hooks_;
  Trainers trainers_;  // Running trainers, and ended ones whose state is on disk.

  bool agent_runs_ = false;
  bool agent_paused_ = false;
  std::string incarnation_;
  uint64_t sequence_ = 0;
  v1::DirectiveId reflected_;
  v1::WorkerDirective directive_;  // The last directive that the agent accepted.
  absl::Duration lease_deadline_;
  int64_t last_sent_ = 0;
  std::vector<v1::AttemptKey> waiting_;
  std::set<std::string> job_folders_;  // On disk: jobs that have a folder with files.
  std::vector<std::string> removals_;  // On disk: existing paths that the server ordered to delete.
  std::vector<v1::WorkerDirective> arrived_while_paused_;
  bool report_is_due_ = false;
};

}  // namespace ampd::sim
