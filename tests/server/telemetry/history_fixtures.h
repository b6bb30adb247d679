#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ampd/v1/worker_service.pb.h"
#include "base/simulated_clock.h"
#include "server/telemetry/metric_store.h"

namespace ampd::server {

// A folder that is deleted at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string Path(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Adds one step. The value of every column depends on the sequence and the step, so that tests can recognize it.
void AddStep(uint64_t sequence, int64_t step, v1::TelemetryBatch* batch);
// Returns steps with the sequences `first` to `last`. Each step's number is its sequence plus `step_offset`.
v1::TelemetryBatch Steps(uint64_t first, uint64_t last, int64_t step_offset = 0);
void AddEval(uint64_t sequence, int64_t step, v1::TelemetryBatch* batch);
void AddEvent(uint64_t sequence, v1::Event::Kind kind, v1::TelemetryBatch* batch);
v1::Event ServerEvent(uint64_t sequence, v1::Event::Kind kind);

// Lists the points of each attempt by their sequence numbers: "a1[1-3,e4,7] a2[1]". An "e" marks an evaluation, a "!"
// superseded points; the other points are steps.
std::string Show(const std::vector<PointSegment>& segments);

// A store on disk that can be closed and opened again.
class StoreOnDisk {
 public:
  StoreOnDisk();
  MetricStore& operator*() { return *store_; }
  MetricStore* operator->() { return store_.get(); }
  SimulatedClock& clock() { return clock_; }
  void Reopen();
  void Close() { store_.reset(); }
  std::string path() const { return folder_.Path("metrics.db"); }

  // Appends the batch and waits until it is durable. Returns up to which sequence the attempt's telemetry is stored.
  absl::StatusOr<uint64_t> Append(int32_t attempt, v1::TelemetryBatch batch, int64_t from_step = 0,
                                  const std::string& job = "j");
  absl::StatusOr<uint64_t> Skip(int32_t attempt, uint64_t first, uint64_t last, int64_t from_step = 0);
  absl::StatusOr<int64_t> AppendLog(int64_t offset, const std::string& text, int64_t dropped = 0);
  absl::Status AppendEvents(std::vector<v1::Event> events);

  // Called with everything that the store passes to on_stored, for all jobs.
  std::function<void(const StoredHistory&)> on_stored;
  int64_t max_log_bytes = 8 << 20;
  int64_t max_queue_bytes = 64 << 20;

 private:
  TemporaryFolder folder_;
  SimulatedClock clock_;
  std::unique_ptr<MetricStore> store_;
};

}  // namespace ampd::server
