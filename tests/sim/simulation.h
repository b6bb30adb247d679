#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/ledger/memory_journal.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_world.h"

namespace ampd::sim {

struct Result {
  // Describes the first violation. Empty if all invariants held after every event, and all jobs were at rest in the
  // end.
  std::string violation;
  uint64_t hash = 0;
  int64_t num_events = 0;
  int64_t num_faults = 0;
  int64_t num_jobs = 0;
  int64_t num_attempts = 0;
};

// Runs the core of the server, three hosts, a network between them and a user, on a virtual clock. In the first two and
// a half minutes there are faults: messages are lost, duplicated and delayed, links are cut, and server, agents,
// trainers and machines crash or stop. Then the faults end, and all jobs must come to rest. One host has two devices,
// the others have one. After every event the simulation checks these invariants:
//
//   * at most one trainer computes for a job, and at most one on a device;
//   * a terminal state never changes, and a cancelled job never runs again;
//   * a job succeeds only at the step at which its trainers finish;
//   * everything acknowledged (jobs, outcomes, checkpoints) is in the durable state, exactly once;
//   * a device holds one attempt, and an attempt that ended by itself does not compute;
//   * a trainer loads only recorded checkpoints, and only files that are not needed are deleted.
//
// When all jobs are at rest, no host may have files of a deleted job.
class Simulation final : server::StateListener {
 public:
  Simulation(uint64_t seed, Bug bug);
  Result Run();

 private:
  struct Link {
    bool up_is_cut = false;
    bool down_is_cut = false;
    absl::Duration down_is_held_until;  // Messages from the server arrive no earlier than this.
  };
  struct Submission {
    std::string request_id;
    std::string job;  // The job's id; set when the server acknowledges the submission.
  };

  // These functions are defined in simulation_server.cc.
  void StartServer();
  void CrashServer();
  void PumpSoon();
  void PlaceSoon();
  void Tick(int life);
  void OnDirectiveDue(const std::string& worker) override;
  void OnEvents(const std::string& job, const std::vector<v1::Event>& events) override;
  void SendUp(size_t host, const v1::WorkerReport& report);
  void SendDown(size_t host, const v1::WorkerDirective& sent, const v1::WorkerReport* answered);
  void Deliver(bool is_cut, absl::Duration held, std::function<void()> arrive);
  std::optional<v1::AttemptKey> CurrentKey(const std::string& job) const;

  // These functions are defined in simulation_faults.cc.
  void FaultLater();
  void Fault();
  void CutLink();
  void UserLater();
  void UserActs();
  void Submit(size_t submission);
  void Desire(const std::string& id, v1::Job::Desired desired);
  void Drain(const std::string& worker, bool drained);
  void CalmDown();
  bool AllAtRest();

  // These functions are defined in simulation.cc.
  void CheckComputing();
  void CheckNotEnded(const v1::AttemptKey& key);
  void CheckState();
  void CheckJob(const v1::Job& job);
  void CheckAcknowledged(const server::ClusterState& state);
  Host::Hooks HooksFor(size_t host);

  World world_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Link> links_;

  std::shared_ptr<server::MemoryJournal::Disk> disk_ = std::make_shared<server::MemoryJournal::Disk>();
  std::unique_ptr<SeededRandom> server_random_;
  std::unique_ptr<server::Ledger> ledger_;
  std::unique_ptr<server::Coordinator> coordinator_;
  int life_ = 0;
  bool pump_is_due_ = false;
  bool placement_is_due_ = false;
  bool state_changed_ = false;

  std::vector<Submission> submissions_;
  std::set<std::string> cancelled_;  // Jobs whose cancellation was acknowledged.
  std::set<std::string> deleted_;    // Jobs whose deletion was requested, even if not acknowledged.
  std::map<std::string, v1::Job::State> terminal_;
  std::vector<v1::AttemptKey> acknowledged_outcomes_;
  std::map<std::pair<std::string, int>, int64_t> acknowledged_checkpoints_;  // The newest step; key: job, attempt.
};

}  // namespace ampd::sim
