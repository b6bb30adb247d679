#pragma once

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "base/log_fields.h"
#include "base/random.h"
#include "worker/agent/agent_counters.h"
#include "worker/agent/artifacts/artifact_cache.h"
#include "worker/agent/attempt_runner.h"
#include "worker/agent/attempt_uploads.h"
#include "worker/agent/attempts/attempt_list.h"
#include "worker/agent/attempts/reconcile.h"
#include "worker/agent/data_roots.h"
#include "worker/agent/files/file_sender.h"
#include "worker/agent/files/removal_thread.h"
#include "worker/agent/link/server_link.h"
#include "worker/agent/reporter.h"
#include "worker/agent/trainers/trainer_pool.h"

namespace ampd::agent {

// The worker's main loop. In each round the agent waits for an event, receives directives and acknowledgements from the
// server, carries out the actions that Reconcile returns, and lets its parts do their work. When a report is due, it
// reports the worker's devices and attempts to the server. When the agent is stopped, it announces that to the server;
// with `stop_trainers_on_exit` it also makes the trainers leave and waits for them. The agent's parts:
//
//   Reporter        decides when a report is due, adds the agent's identity and sends it
//   AttemptRunner   runs the attempts and talks to their trainers
//   TrainerPool     starts and ends the trainer processes
//   AttemptUploads  uploads telemetry and logs
//
// Before its first report the agent looks for trainers that an earlier agent left. Single-threaded; owner: the thread
// that calls Run. Stop may be called from any thread.
class Agent {
 public:
  struct Options {
    std::string name;
    std::string version;
    std::string metrics_address;
    v1::AgentIdentity identity;
    std::string state_folder;
    std::string ready_file;  // path of the ready file (ready_file.h); empty: none
    std::string checkpoint_root;
    bool checkpoint_root_shared = false;  // whether all workers see the same checkpoints there
    DataRoots data_roots;
    std::vector<std::string> tenants;  // Empty: all tenants that the server allows.
    std::optional<gid_t> data_group;   // group that owns the files that jobs may read
    SpawnedTrainer::Command command;
    bool warm = true;
    bool stop_trainers_on_exit = false;
    absl::Duration cancel_grace = absl::Seconds(10);
    absl::Duration leave_grace = absl::Minutes(5);
    absl::Duration exit_grace = absl::Seconds(20);
    std::function<std::vector<v1::Device>()> devices;  // returns the devices in their current state
    std::function<void(const std::string&)> log;       // takes one line; thread-safe
    // takes a line about an attempt, and the fields to log with the line
    std::function<void(const std::string&, const LogFields&)> log_attempt;
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;
    ServerLink* link = nullptr;
    ArtifactCache* artifacts = nullptr;
    FileSender* files = nullptr;
    AgentCounters* counters = nullptr;
    TrainingTimes* times = nullptr;  // null: training times are not measured
  };
  explicit Agent(Options options);

  // Finds the shims and trainers that an earlier agent left running, and starts the thread that removes checkpoints.
  // Call once, before Run.
  void Start();
  // Runs until Stop is called. Then it announces to the server that this worker accepts no more work, and waits for at
  // most one second until the server has received that. With `stop_trainers_on_exit` it also waits until the trainers
  // have left or were killed.
  void Run();
  void Stop();

 private:
  AttemptRunner::Options RunnerOptions();
  TrainerPool::Options PoolOptions();
  AttemptUploads::Options UploadOptions();

  void RunOnce();
  void Wait();
  void ReceiveArrivals();
  void OnDirective(const v1::WorkerDirective& directive);
  // Compares the directive with the worker's attempts, devices and pending removals, and carries out the resulting
  // actions. `again`: whether the directive was processed before (see Reconcile).
  void ReconcileWith(const v1::WorkerDirective& directive, bool again);
  Holdings CurrentHoldings() const;
  void UpdateDevices();
  // Updates `reflected_`. A report reflects a directive only when the directive's removals cannot be lost any more,
  // because the server repeats them until then.
  void UpdateReflected();
  void SendReport(absl::Duration now);
  // Called for the first directive on a stream. By sending it, the server accepts this worker. Writes the ready file
  // and logs the acceptance.
  void OnAccepted();

  // Whether the agent is stopping and must end its trainers before it exits.
  bool StopsTrainers() const { return stop_ && options_.stop_trainers_on_exit; }
  // Makes the trainers of a stopping agent leave, and kills those that take too long. Returns whether the agent must
  // still wait for them.
  bool AwaitTrainers(absl::Duration now);
  // Ends the warm trainers (those without an attempt) of a stopping agent, even if the other trainers continue. The
  // next agent may be of another version, and then could not use these warm trainers. Returns whether the agent must
  // still wait for them to end.
  bool AwaitWarmTrainers(absl::Duration now);
  // Whether a stopping agent must wait until the server has received the announcement of the stop. Before that, the
  // server may still assign work to this agent.
  bool AwaitAnnouncement(absl::Duration now);

  const Options options_;
  Reporter reporter_;
  TrainerPool trainers_;
  AttemptList attempts_;
  std::vector<v1::Device> devices_;
  AttemptRunner runner_;
  AttemptUploads uploads_;
  RemovalThread removals_;
  v1::WorkerDirective directive_;  // the newest directive
  v1::DirectiveId reflected_;      // the newest directive whose removals are carried out or stored, too
  uint64_t removal_request_ = 0;   // the newest request to `removals_`
  absl::Duration lease_deadline_;
  std::optional<absl::Duration>
      leave_until_;  // when stopping: until when trainers may leave, or end after they were killed; since boot
  std::optional<absl::Duration> warm_until_;      // when stopping: deadline for warm trainers to end; since boot
  std::optional<absl::Duration> announce_until_;  // when stopping: deadline for the server to learn of it; since boot
  bool killed_all_ = false;
  UniqueFd stop_fd_;
  std::atomic<bool> stop_ = false;
};

}  // namespace ampd::agent
