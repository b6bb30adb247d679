#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/artifacts/artifact_store.h"
#include "server/coordinator/job_queries.h"
#include "server/coordinator/state_listener.h"
#include "server/ledger/ledger.h"
#include "server/monitoring/change_log.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/metrics.h"
#include "server/monitoring/scrape_page.h"
#include "server/rpc/worker_streams.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// Passes changes of the state on to the rest of the server: events and new records to the metric store and its
// watchers, changes to the log and to /metrics, due directives to the workers' streams. When jobs or their histories
// are deleted, deletes the data that belongs to them. Thread-safe.
class StateFollower final : public StateListener {
 public:
  struct Options {
    MetricStore* store = nullptr;
    ArtifactStore* artifacts = nullptr;
    MetricsHub* hub = nullptr;
    ProgressBoard* progress = nullptr;
    WorkerStreams* streams = nullptr;
    ServerMetrics* metrics = nullptr;
    ScrapePage* page = nullptr;
    JobTable* table = nullptr;
  };
  explicit StateFollower(const Options& options) : options_(options) {}

  // Reads the live jobs, their progress, and the workers that are known when the server starts. Call it before the
  // ledger and the store start.
  absl::Status RecoverState(const Ledger& ledger);
  // Completes deletions of histories that a crash interrupted: histories of deleted jobs, and histories that retention
  // deleted from jobs that still exist. Checks only histories to which nothing was added for longer than `retention`.
  void SweepHistories(const JobQueries& queries, absl::Duration retention);

  void OnJob(const JobPtr& job) override;
  void OnEvents(const std::string& job, const std::vector<v1::Event>& events) override;
  void OnJobMoved(const internal::JobRecord& record, const v1::Event& event) override {
    changes_.JobMoved(record, event);
  }
  void OnJobDeleted(const DeletedJob& job) override;
  void OnHistoryDeleted(const DeletedHistory& history) override;
  void OnWorker(const internal::WorkerRecord& worker) override { changes_.WorkerChanged(worker); }
  void OnWorkerRemoved(const std::string& worker) override { changes_.WorkerRemoved(worker); }
  void OnDirectiveDue(const std::string& worker) override { options_.streams->DirectiveDue(worker); }
  void OnWorkerTrouble(const std::string& worker, const std::string& line) override;
  void OnClockLeap(absl::Duration leap) override { changes_.ClockLeapt(leap); }
  void OnPlacement(size_t num_waiting, size_t num_placed, absl::Duration time) override;

 private:
  // Removes a deleted job from the job table and the progress board, and deletes its history. `traceparent` is the
  // job's, for the log line; empty: not known.
  void ForgetJob(const std::string& job, const std::string& traceparent);
  // Deletes the job's metric points, events, logs and generated samples.
  void DeleteHistory(const std::string& job, const std::string& traceparent);

  const Options options_;
  ChangeLog changes_;
};

}  // namespace ampd::server
