#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/simulated_clock.h"
#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/ledger/memory_journal.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {

// A worker without an agent process. It reports what the test stores in `report`.
struct ScriptedWorker {
  explicit ScriptedWorker(const std::string& name, const std::string& agent = "");
  // Replaces all attempts of the report by this one.
  v1::AttemptReport& Has(const v1::AttemptKey& key, v1::Attempt::State state);

  v1::WorkerReport report;
};

// Returns the spec of a small job that is about `num_bytes` large, because it has that many bytes of module rules.
v1::JobSpec LargeSpec(size_t num_bytes);

// Tests of a coordinator with a journal in memory and a simulated clock, without threads. Records the notifications of
// StateListener.
class CoordinatorTest : public testing::Test, public StateListener {
 protected:
  void SetUp() override { StartServer(); }

  // Starts the server, or restarts it with the same journal.
  void StartServer();
  // Commits updates and places jobs until nothing is left to do.
  void Pump();
  void Pass(absl::Duration duration);
  static JobDone Into(absl::StatusOr<JobPtr>* result);

  absl::StatusOr<JobPtr> Create(const std::string& request_id = "", const std::string& name = "job");
  std::string CreateId() { return (*Create())->id(); }
  std::string CreateIdOf(const std::string& preset);
  std::string RemoveWorker(const std::string& name);
  // Sends the worker's report and lets the coordinator do everything that follows from the report. Returns the
  // directive that a stream would then send to the worker. The worker's next report says that it has received this
  // directive.
  v1::WorkerDirective Exchange(ScriptedWorker& worker);
  // Sends the worker's report. Expects that the worker is assigned `job`, the only waiting job, and then reports the
  // attempt as RUNNING.
  v1::AttemptKey StartOn(ScriptedWorker& worker, const std::string& job);

  std::string Shown(const std::string& job);
  std::string PrecisionOf(const std::string& job);
  v1::Worker ViewOf(const std::string& worker);

  void OnHistoryDeleted(const DeletedHistory& history) override { histories_deleted.push_back(history.job); }
  void OnClockLeap(absl::Duration leap) override { leaps.push_back(absl::FormatDuration(leap)); }
  void OnDirectiveDue(const std::string& worker) override { due.push_back(worker); }
  void OnWorkerTrouble(const std::string& worker, const std::string& line) override;
  void OnJobDeleted(const DeletedJob& job) override { deleted.push_back(job.id); }
  void OnEvents(const std::string& job, const std::vector<v1::Event>& events) override;
  void OnPlacement(size_t /*num_waiting*/, size_t /*num_placed*/, absl::Duration /*time*/) override { ++num_searches; }

  SimulatedClock clock;
  SeededRandom random{42};
  std::shared_ptr<MemoryJournal::Disk> disk = std::make_shared<MemoryJournal::Disk>();
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<Coordinator> coordinator;
  std::vector<std::string> due;
  absl::Duration archive_after = absl::Hours(1);
  absl::Duration worker_retention = absl::Hours(48);
  size_t max_spec_bytes = size_t{512} << 20;
  size_t max_queue = 65'536;  // The capacity of the ledger's queue of updates.
  RetentionPolicy retention = {absl::Hours(24), absl::ZeroDuration()};
  std::vector<std::string> deleted;
  std::vector<std::string> histories_deleted;
  std::vector<std::string> leaps;
  std::vector<std::string> troubles;  // The lines of OnWorkerTrouble.
  int num_events = 0;
  int num_searches = 0;  // The number of placement runs.
  std::string uploaded;  // The only artifact that exists.
  int num_held = 0;
  absl::Status model_error;  // The error of reading the uploaded model.
  int num_models_read = 0;
  std::string started_over;  // The messages of all STARTED_OVER events.

 private:
  ModelFinder::Options Models();
};

}  // namespace ampd::server
