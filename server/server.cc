#include "server/server.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"
#include "http/listener.h"
#include "server/artifacts/artifact_store.h"
#include "server/artifacts/uploaded_models.h"
#include "server/coordinator/coordinator.h"
#include "server/data_directory.h"
#include "server/ledger/ledger.h"
#include "server/ledger/sqlite_journal.h"
#include "server/monitoring/call_log.h"
#include "server/monitoring/change_log.h"
#include "server/monitoring/fleet_collector.h"
#include "server/monitoring/fleet_watch.h"
#include "server/monitoring/health_monitor.h"
#include "server/monitoring/http_routes.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/metrics.h"
#include "server/monitoring/scrape_page.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/worker_streams.h"
#include "server/state/job_rules.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"
#include "server/telemetry/progress.h"

namespace ampd::server {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(200);
constexpr int kTicksPerLook = 5;
constexpr int kTicksPerSweep = 5 * 3600;
constexpr int kMaxSweptJobs = 1000;

}  // namespace

// Members are destroyed in reverse order: the last one first.
struct Server::Parts final : StateListener {
  Parts(const ServerConfig& with, std::shared_ptr<prometheus::Collectable> beside,
        std::function<void(const absl::Status&)> fatal)
      : config(with), on_fatal(std::move(fatal)), table(with.metrics_linger), page(PageOptions(std::move(beside))) {}

  absl::Status Open();
  absl::Status OpenArtifacts();
  absl::Status Restore();
  absl::Status Listen();
  void OnJob(const JobPtr& job) override;
  void OnEvents(const std::string& job, const std::vector<v1::Event>& events) override;
  void OnJobMoved(const v1::Job& job, const v1::Event& event) override { changes.JobMoved(job, event); }
  void OnJobDeleted(const std::string& job) override;
  void OnHistoryDeleted(const std::string& job) override;
  void OnWorker(const internal::WorkerRecord& worker) override { changes.WorkerChanged(worker); }
  void OnDirectiveDue(const std::string& worker) override { streams.DirectiveDue(worker); }
  void OnWorkerTrouble(const std::string& worker, const std::string& line) override {
    Log(spdlog::level::warn, line, {{"worker", worker}});
  }
  void OnClockLeap(absl::Duration leap) override { changes.ClockLeapt(leap); }
  void OnPlacement(size_t num_waiting, size_t num_placed, absl::Duration time) override {
    metrics.SchedulerCycle(num_waiting, num_placed, time);
  }
  void ForgetJob(const std::string& job);
  // Deletes points, events, logs and samples.
  void DeleteHistory(const std::string& job);
  void OnStoreWrite(absl::Duration time, bool ok);
  ScrapePage::Options PageOptions(std::shared_ptr<prometheus::Collectable> beside);
  void UpdateMetrics();
  HealthMonitor::Options HealthOptions();
  void ShowHealth(const HealthMonitor::Results& results);
  void CheckFolder();
  void TickLoop();
  void SweepStore();
  void Stop();

  const ServerConfig config;
  const std::function<void(const absl::Status&)> on_fatal;
  ServerMetrics metrics;
  ChangeLog changes;
  CallLog calls{&metrics, &SystemClock()};
  JobTable table;
  ProgressBoard progress;
  MetricsHub hub;
  WorkerStreams streams;
  std::unique_ptr<MetricStore> store;
  std::unique_ptr<ArtifactStore> artifacts;
  UploadedModels models{{.open = [this](const std::string& artifact) -> absl::StatusOr<UniqueFd> {
    AMPD_ASSIGN_OR_RETURN(ArtifactStore::Content content, artifacts->OpenContent(artifact));
    return std::move(content.file);
  }}};
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<FleetWatch> fleet;
  ScrapePage page;
  std::optional<FolderWatch> folder;
  HealthMonitor health{HealthOptions()};
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<http::Listener> listener;
  std::thread ticker;

  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool stopped = false;
  bool store_fails = false;  // Used by the store's thread.
  bool is_lost = false;      // The data directory is lost; used by the ticker.
};

absl::Status Server::Parts::Open() {
  AMPD_RETURN_IF_ERROR(MakeDataDirectory(config.data_dir));
  // The journal's lock is taken before the metric store is touched.
  SqliteJournal::Options journal;
  journal.data_dir = config.data_dir;
  journal.min_free_bytes = config.min_free_bytes;
  journal.reserve_bytes = config.reserve_bytes;
  AMPD_ASSIGN_OR_RETURN(std::unique_ptr<SqliteJournal> opened, SqliteJournal::Open(journal));
  MetricStore::Options metric_store;
  metric_store.path = config.data_dir + "/metrics.db";
  metric_store.clock = &SystemClock();
  metric_store.on_stored = [this](const StoredHistory& stored) {
    progress.Update(stored);
    hub.PublishHistory(stored);
  };
  metric_store.on_log_stored = [this](const std::string& job, int32_t) { hub.PublishLog(job); };
  metric_store.on_group_written = [this](absl::Duration time, bool ok) { OnStoreWrite(time, ok); };
  metric_store.on_read = [this](absl::Duration time) { metrics.StoreRead(time); };
  metric_store.on_skipped = [this](const TelemetrySkip& skip) {
    metrics.TelemetryRefused();
    Log(spdlog::level::warn, "telemetry dropped",
        {{"job_id", skip.job},
         {"attempt", int64_t{skip.attempt}},
         {"first_sequence", absl::StrCat(skip.first_sequence)},
         {"last_sequence", absl::StrCat(skip.last_sequence)},
         {"detail", skip.why}});
  };
  AMPD_ASSIGN_OR_RETURN(store, MetricStore::Open(std::move(metric_store)));
  AMPD_RETURN_IF_ERROR(OpenArtifacts());
  Ledger::Options ledger_options;
  ledger_options.journal = std::move(opened);
  ledger_options.flush_events = [this] { return store->Flush(); };
  AMPD_ASSIGN_OR_RETURN(ledger, Ledger::Open(std::move(ledger_options)));
  AMPD_ASSIGN_OR_RETURN(folder, FolderWatch::Of(config.data_dir, {"journal.db", "metrics.db", "artifacts.db"}));
  return absl::OkStatus();
}

// The store's callbacks are called only after its Start, when the coordinator exists.
absl::Status Server::Parts::OpenArtifacts() {
  ArtifactStore::Options options;
  options.folder = config.data_dir + "/artifacts";
  options.index_path = config.data_dir + "/artifacts.db";
  options.clock = &SystemClock();
  options.quota_bytes = config.artifact_quota_bytes;
  options.min_free_bytes = config.min_free_bytes;
  options.retention = config.artifact_retention;
  options.live_uploads = [this] { return coordinator->queries().LiveArtifacts(); };
  options.job_exists = [this](const std::string& job) {
    const absl::StatusOr<JobPtr> found = coordinator->queries().GetJob(job);
    return absl::IsNotFound(found.status()) ? false : !found.ok() || !(*found)->history_deleted();
  };
  options.clock_is_steady = [this] { return coordinator->expiry().ClockIsSteady(); };
  options.on_sweep_failed = [](const absl::Status& status) {
    Log(spdlog::level::warn, "the sweep of the artifacts failed", {{"detail", std::string(status.message())}});
  };
  AMPD_ASSIGN_OR_RETURN(artifacts, ArtifactStore::Open(std::move(options)));
  return absl::OkStatus();
}

absl::Status Server::Parts::Restore() {
  std::vector<JobPtr> live;
  ledger->Read([&](const ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      if (!IsTerminal(record->job().state())) {
        live.push_back(JobOf(record));
      }
    }
    for (const auto& [name, record] : state.workers()) {
      changes.Know(*record);
    }
  });
  for (const JobPtr& job : live) {
    table.Put(job, absl::Now());
    if (job->num_attempts() > 0) {
      AMPD_RETURN_IF_ERROR(progress.Restore(store.get(), job->id()));
    }
  }
  store->Start();
  Coordinator::Options options;
  options.ledger = ledger.get();
  options.clock = &SystemClock();
  options.random = &SystemRandom();
  options.lease = config.lease;
  options.lease_margin = config.lease_margin;
  options.suspend_limit = config.suspend_limit;
  options.local_checkpoint_wait = config.local_checkpoint_wait;
  options.archive_after = config.archive_after;
  options.retention = {config.retention, config.checkpoint_retention};
  options.worker_retention = config.worker_retention;
  options.listener = this;
  options.models.hold_artifact = [this](const std::string& artifact) { return artifacts->Hold(artifact); };
  options.models.read_model = [this](const std::string& artifact) { return models.Read(artifact); };
  coordinator = std::make_unique<Coordinator>(options);
  ledger->Start();
  fleet = std::make_unique<FleetWatch>(&coordinator->sessions(), &table, &progress, config.metrics_max_jobs);
  AMPD_RETURN_IF_ERROR(coordinator->Start());
  coordinator->scheduler().Start();
  artifacts->Start();
  return absl::OkStatus();
}

void Server::Parts::OnJob(const JobPtr& job) {
  page.Count([this, &job] {
    const JobPtr before = table.Put(job, absl::Now());
    metrics.JobChanged(before.get(), *job);
  });
  if (hub.IsWatched(job->id())) {
    // Published after the job's events, which are already queued or in the same group.
    const absl::Status queued =
        store->AppendServerEvents(job->id(), {}, [this, job](absl::Status) { hub.PublishJob(job); });
    if (!queued.ok()) {
      hub.PublishJob(job);
    }
  }
}

void Server::Parts::OnEvents(const std::string& job, const std::vector<v1::Event>& events) {
  const auto tell = [job](const absl::Status& status) {
    if (!status.ok()) {
      Log(spdlog::level::err, "events were not stored", {{"job_id", job}, {"detail", std::string(status.message())}});
    }
  };
  tell(store->AppendServerEvents(job, events, tell));
}

void Server::Parts::OnStoreWrite(absl::Duration time, bool ok) {
  metrics.StoreWrite(time, ok);
  if (std::exchange(store_fails, !ok) == ok) {
    ok ? Log(spdlog::level::info, "the metric store can be written again")
       : Log(spdlog::level::err, "the metric store can't be written: events wait, telemetry is sent again");
  }
}

void Server::Parts::OnJobDeleted(const std::string& job) {
  changes.JobDeleted(job);
  ForgetJob(job);
}

void Server::Parts::OnHistoryDeleted(const std::string& job) {
  changes.HistoryDeleted(job);
  DeleteHistory(job);
}

void Server::Parts::ForgetJob(const std::string& job) {
  table.Remove(job);
  progress.Forget(job);
  DeleteHistory(job);
}

void Server::Parts::DeleteHistory(const std::string& job) {
  artifacts->DeleteJob(job);
  const absl::Status queued = store->DeleteJob(job, [](const absl::Status&) {});
  if (!queued.ok()) {
    Log(spdlog::level::warn, "the history of a job stays until the next sweep",
        {{"job_id", job}, {"detail", std::string(queued.message())}});
  }
}

absl::Status Server::Parts::Listen() {
  GrpcServer::Options options;
  options.listen = config.listen;
  options.max_connections = MaxConnections(DescriptorLimit());
  options.log = [](const std::string& line) { Log(spdlog::level::warn, line); };
  options.coordinator = coordinator.get();
  options.store = store.get();
  options.artifacts = artifacts.get();
  options.hub = &hub;
  options.progress = &progress;
  options.streams = &streams;
  options.clock = &SystemClock();
  options.observer = &calls;
  AMPD_ASSIGN_OR_RETURN(grpc, GrpcServer::Start(options));
  http::Listener::Options serving;
  serving.address = config.metrics_listen;
  serving.max_connections = static_cast<int>(std::clamp<int64_t>(DescriptorLimit() / 16, 4, 256));
  serving.router = ServerRoutes([this] { return page.Render(absl::Now()); }, [this] { return health.WhatFails(); });
  AMPD_ASSIGN_OR_RETURN(listener, http::Listener::Start(std::move(serving)));
  ticker = std::thread([this] { TickLoop(); });
  return absl::OkStatus();
}

void Server::Parts::TickLoop() {
  for (int64_t num_ticks = 0;; ++num_ticks) {
    {
      absl::MutexLock lock(&mutex);
      if (AwaitFor(mutex, absl::Condition(&stopping), kTick)) {
        return;
      }
    }
    coordinator->Tick();
    CheckFolder();
    if (num_ticks % kTicksPerLook == 0) {
      calls.Flush();
      page.Look(absl::Now());
      health.Look();
    }
    if (num_ticks % kTicksPerSweep == 0) {
      SweepStore();
    }
  }
}

ScrapePage::Options Server::Parts::PageOptions(std::shared_ptr<prometheus::Collectable> beside) {
  return {.metrics = &metrics,
          .take_fleet = [this](absl::Time now) { return fleet->Take(now); },
          .update_metrics = [this] { UpdateMetrics(); },
          .more = {std::make_shared<ProcessCollector>(), std::move(beside)}};
}

// Called by a scrape, so the listener exists.
void Server::Parts::UpdateMetrics() {
  const Ledger::Counters counters = ledger->counters();
  metrics.SetJournal(counters.num_groups, counters.num_updates);
  metrics.SetPointsDropped(hub.num_points_dropped());
  const Acceptor::Counters connections = grpc->connections();
  metrics.SetConnections(connections.num_open, connections.num_refused, connections.num_evicted);
}

// A server whose files are gone would continue to make promises that it cannot keep.
void Server::Parts::CheckFolder() {
  const absl::Status status = folder->Check();
  if (status.ok() || std::exchange(is_lost, true)) {
    return;
  }
  Log(spdlog::level::critical, std::string(status.message()));
  health.Look();
  if (on_fatal) {
    on_fatal(status);
  }
}

HealthMonitor::Options Server::Parts::HealthOptions() {
  return {.has_disk_room = [this] { return ledger->HasRoomForSubmits(); },
          .check_folder = [this] { return folder->Check(); },
          .has_connection_room = [this] { return grpc->HadConnectionRoom(); },
          .show = [this](const HealthMonitor::Results& results) { ShowHealth(results); },
          .log = [](bool is_good,
                    const std::string& line) { Log(is_good ? spdlog::level::info : spdlog::level::warn, line); }};
}

void Server::Parts::ShowHealth(const HealthMonitor::Results& results) {
  grpc->ShowHealth(results);
  metrics.SetHealth(results);
}

// Deletes histories that should be gone, with or without their job, because a crash lost their deletion.
void Server::Parts::SweepStore() {
  absl::StatusOr<std::vector<std::string>> idle = store->Read([&](MetricReader& reader) {
    return reader.ListJobsIdleSince(absl::Now() - config.retention - absl::Hours(1), kMaxSweptJobs);
  });
  if (!idle.ok()) {
    Log(spdlog::level::warn, "the sweep of the metric store failed",
        {{"detail", std::string(idle.status().message())}});
    return;
  }
  for (const std::string& job : *idle) {
    const absl::StatusOr<JobPtr> found = coordinator->queries().GetJob(job);
    if (absl::IsNotFound(found.status())) {
      ForgetJob(job);
    } else if (found.ok() && (*found)->history_deleted()) {
      DeleteHistory(job);
    }
  }
}

void Server::Parts::Stop() {
  if (std::exchange(stopped, true)) {
    return;
  }
  health.BeginLeaving();
  if (grpc != nullptr) {
    grpc->Drain(config.drain_grace);
  }
  {
    absl::MutexLock lock(&mutex);
    stopping = true;
  }
  if (ticker.joinable()) {
    ticker.join();
  }
  listener.reset();
  if (artifacts != nullptr) {
    artifacts->Stop();  // Its thread calls the coordinator.
  }
  if (coordinator != nullptr) {
    coordinator->scheduler().Stop();  // Its thread commits.
  }
  // Commits queued updates and calls the coordinator's listener, so the coordinator is destroyed later.
  ledger.reset();
  grpc.reset();
  coordinator.reset();
  artifacts.reset();
  store.reset();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                                      std::shared_ptr<prometheus::Collectable> more,
                                                      std::function<void(const absl::Status&)> on_fatal) {
  auto parts = std::make_unique<Parts>(config, std::move(more), std::move(on_fatal));
  AMPD_RETURN_IF_ERROR(CheckBindable(config.listen));
  AMPD_RETURN_IF_ERROR(CheckBindable(config.metrics_listen));
  // From here on the destructor of Server stops in order what was started.
  std::unique_ptr<Server> server(new Server(std::move(parts)));
  AMPD_RETURN_IF_ERROR(server->parts_->Open());
  AMPD_RETURN_IF_ERROR(server->parts_->Restore());
  AMPD_RETURN_IF_ERROR(server->parts_->Listen());
  if (!config.port_file.empty()) {
    AMPD_RETURN_IF_ERROR(
        WriteFileAtomically(config.port_file, absl::StrCat(server->port(), "\n", server->metrics_port(), "\n")));
  }
  return server;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Stop(); }

int Server::port() const { return parts_->grpc->port(); }

int Server::metrics_port() const { return parts_->listener->port(); }

void Server::Stop() { parts_->Stop(); }

}  // namespace ampd::server
