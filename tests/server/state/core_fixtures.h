#pragma once

#include <memory>
#include <string>

#include "ampd/internal/journal.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "server/state/cluster_state.h"
#include "server/state/placement_table.h"

// Specs, updates and views of a small cluster, for the tests of the server's state and ledger.
namespace ampd::server {

inline constexpr int64_t kSmallSteps = 1000;

// Returns the spec of a job of kSmallSteps steps that admission accepts: an MLP on synthetic data.
v1::JobSpec SmallSpec(const std::string& name = "job");

// Returns a worker with one CPU device, "cpu".
v1::Worker CpuWorker(const std::string& name);

v1::Checkpoint CheckpointAt(const std::string& job, int attempt, int64_t step);
// Returns an outcome of this kind. For FINISHED it has the last step of a SmallSpec, for other kinds step 0.
v1::Outcome OutcomeOf(v1::Outcome::Kind kind, v1::Reason::Code reason);

// Creates updates. The time of each update is one second after that of the previous one.
class UpdateMaker {
 public:
  internal::Update Create(const std::string& id, const std::string& request_id = "", const std::string& digest = "d");
  internal::Update Desire(const std::string& job, v1::Job::Desired desired);
  internal::Update Register(const std::string& worker);
  internal::Update Drain(const std::string& worker, bool drained = true);
  internal::Update Lose(const std::string& worker);
  // The attempt's token is "t" followed by its number.
  internal::Update Assign(const std::string& job, int attempt, const std::string& worker);
  internal::Update Advance(const std::string& job, int attempt, v1::Attempt::State state);
  internal::Update Save(const std::string& job, int attempt, int64_t step);
  internal::Update End(const std::string& job, int attempt, v1::Outcome::Kind kind, v1::Reason::Code reason);
  internal::Update New();

 private:
  int64_t seconds_ = 1'700'000'000;
};

// Returns a job as text, such as "j1:RUNNING@w1#2 USER_PAUSED ckpt=5": the state, worker and number of the live
// attempt, the reason if there is one, and the newest checkpoint's step if there is one.
std::string Show(const ClusterState& state, const std::string& id);

// Returns a new placement table, filled with all records of the state and the facts `live` about workers.
PlacementTable FillTable(const ClusterState& state, const LiveWorkers& live);

}  // namespace ampd::server
