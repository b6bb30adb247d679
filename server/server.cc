#include "server/server.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "http/listener.h"
#include "server/artifacts/artifact_store.h"
#include "server/artifacts/uploaded_models.h"
#include "server/audit/audit_log.h"
#include "server/coordinator/coordinator.h"
#include "server/data_directory.h"
#include "server/ledger/ledger.h"
#include "server/ledger/sqlite_journal.h"
#include "server/monitoring/call_log.h"
#include "server/monitoring/health_monitor.h"
#include "server/monitoring/http_routes.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/metrics.h"
#include "server/monitoring/metrics_snapshotter.h"
#include "server/monitoring/scrape_page.h"
#include "server/monitoring/snapshot_collector.h"
#include "server/periodic_thread.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/worker_streams.h"
#include "server/state_follower.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"
#include "server/telemetry/progress.h"
#include "server/telemetry_follower.h"
#include "server/tokens/token_store.h"

namespace ampd::server {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(200);
constexpr int kTicksPerLook = 5;
constexpr int kTicksPerSweep = 5 * 3600;

// The parts that store data on disk.
struct Storage {
  std::unique_ptr<MetricStore> store;
  std::unique_ptr<ArtifactStore> artifacts;
  std::unique_ptr<TokenStore> tokens;
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<Ledger> ledger;
  std::optional<FolderWatch> folder;
  bool is_lost = false;  // Whether the data directory is gone. Used by the ticker only.
};

// The parts that serve workers and watching clients.
struct Feeds {
  ProgressBoard progress;
  MetricsHub hub;
  WorkerStreams streams;
};

// The coordinator, the models that it reads, and the maker of the snapshots of jobs and workers that /metrics shows.
struct Core {
  Core(const ServerConfig& config, const Storage& storage, StateListener* listener, JobTable* table,
       ProgressBoard* progress)
      : models({.open = [artifacts = storage.artifacts.get()](const std::string& artifact) -> absl::StatusOr<UniqueFd> {
          AMPD_ASSIGN_OR_RETURN(ArtifactStore::Content content, artifacts->OpenContent(artifact));
          return std::move(content.file);
        }}),
        coordinator(OptionsFor(config, storage, listener)),
        snapshotter(&coordinator.sessions(), table, progress, config.metrics_max_jobs) {}

  CoordinatorOptions OptionsFor(const ServerConfig& config, const Storage& storage, StateListener* listener) {
    CoordinatorOptions options;
    options.ledger = storage.ledger.get();
    options.clock = &SystemClock();
    options.random = &SystemRandom();
    options.listener = listener;
    options.models.hold_artifact = [artifacts = storage.artifacts.get()](const std::string& artifact) {
      return artifacts->Hold(artifact);
    };
    options.models.read_model = [this](const std::string& artifact) { return models.Read(artifact); };
    options.lease = config.lease;
    options.lease_margin = config.lease_margin;
    options.suspend_limit = config.suspend_limit;
    options.local_checkpoint_wait = config.local_checkpoint_wait;
    options.archive_after = config.archive_after;
    options.retention = {config.retention, config.checkpoint_retention};
    options.worker_retention = config.worker_retention;
    return options;
  }

  UploadedModels models;
  Coordinator coordinator;
  MetricsSnapshotter snapshotter;
};

}  // namespace

// Members are destroyed in reverse order: the last one first.
struct Server::Parts {
  Parts(const ServerConfig& with, std::shared_ptr<prometheus::Collectable> beside,
        std::function<void(const absl::Status&)> fatal)
      : config(with), on_fatal(std::move(fatal)), table(with.metrics_linger), page(PageOptions(std::move(beside))) {}

  absl::Status OpenStorage();
  absl::Status OpenArtifacts();
  absl::Status StartCore();
  absl::Status Listen();
  ScrapePage::Options PageOptions(std::shared_ptr<prometheus::Collectable> beside);
  HealthMonitor::Options HealthOptions();
  void UpdateMetrics();
  void Tick(int64_t num_ticks);
  void CheckFolder();
  void EndDeniedStreams();
  void Stop();

  const ServerConfig config;
  const std::function<void(const absl::Status&)> on_fatal;
  ServerMetrics metrics;
  CallLog calls{&metrics, &SystemClock()};
  JobTable table;
  Feeds feeds;
  TelemetryFollower telemetry{&feeds.progress, &feeds.hub, &metrics};
  Storage storage;
  ScrapePage page;
  std::unique_ptr<StateFollower> follower;
  std::unique_ptr<Core> core;
  HealthMonitor health{HealthOptions()};
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<http::Listener> listener;
  PeriodicThread ticker;
};

absl::Status Server::Parts::OpenStorage() {
  AMPD_RETURN_IF_ERROR(MakeDataDirectory(config.data_dir));
  // The journal's lock is taken before the metric store is opened.
  SqliteJournal::Options journal;
  journal.data_dir = config.data_dir;
  journal.min_free_bytes = config.min_free_bytes;
  journal.reserve_bytes = config.reserve_bytes;
  AMPD_ASSIGN_OR_RETURN(std::unique_ptr<SqliteJournal> opened, SqliteJournal::Open(journal));
  MetricStore::Options metric_store;
  metric_store.path = config.data_dir + "/metrics.db";
  metric_store.clock = &SystemClock();
  ListenTo(&metric_store, &telemetry);
  AMPD_ASSIGN_OR_RETURN(storage.store, MetricStore::Open(std::move(metric_store)));
  AMPD_RETURN_IF_ERROR(OpenArtifacts());
  AMPD_ASSIGN_OR_RETURN(
      storage.tokens,
      TokenStore::Open({.path = config.data_dir + "/tokens.db", .clock = &SystemClock(), .random = &SystemRandom()}));
  AMPD_ASSIGN_OR_RETURN(storage.audit, AuditLog::Open({.path = config.data_dir + "/audit.log"}));
  Ledger::Options ledger_options;
  ledger_options.journal = std::move(opened);
  ledger_options.flush_events = [this] { return storage.store->Flush(); };
  AMPD_ASSIGN_OR_RETURN(storage.ledger, Ledger::Open(std::move(ledger_options)));
  AMPD_ASSIGN_OR_RETURN(storage.folder,
                        FolderWatch::Of(config.data_dir, {"journal.db", "metrics.db", "artifacts.db", "tokens.db"}));
  return absl::OkStatus();
}

// The callbacks given to the store use the coordinator. The store calls them only after its Start, when the coordinator
// exists.
absl::Status Server::Parts::OpenArtifacts() {
  ArtifactStore::Options options;
  options.folder = config.data_dir + "/artifacts";
  options.index_path = config.data_dir + "/artifacts.db";
  options.clock = &SystemClock();
  options.quota_bytes = config.artifact_quota_bytes;
  options.min_free_bytes = config.min_free_bytes;
  options.retention = config.artifact_retention;
  options.live_uploads = [this] { return core->coordinator.queries().LiveArtifacts(); };
  options.job_exists = [this](const std::string& job) {
    const absl::StatusOr<JobPtr> found = core->coordinator.queries().GetJob(job);
    return absl::IsNotFound(found.status()) ? false : !found.ok() || !(*found)->history_deleted();
  };
  options.clock_is_steady = [this] { return core->coordinator.expiry().ClockIsSteady(); };
  options.on_sweep_failed = [](const absl::Status& status) {
    Log(spdlog::level::warn, "the sweep of the artifacts failed", {{"detail", std::string(status.message())}});
  };
  AMPD_ASSIGN_OR_RETURN(storage.artifacts, ArtifactStore::Open(std::move(options)));
  return absl::OkStatus();
}

absl::Status Server::Parts::StartCore() {
  follower = std::make_unique<StateFollower>(StateFollower::Options{.store = storage.store.get(),
                                                                    .artifacts = storage.artifacts.get(),
                                                                    .hub = &feeds.hub,
                                                                    .progress = &feeds.progress,
                                                                    .streams = &feeds.streams,
                                                                    .metrics = &metrics,
                                                                    .page = &page,
                                                                    .table = &table});
  AMPD_RETURN_IF_ERROR(follower->RecoverState(*storage.ledger));
  storage.store->Start();
  core = std::make_unique<Core>(config, storage, follower.get(), &table, &feeds.progress);
  storage.ledger->Start();
  AMPD_RETURN_IF_ERROR(core->coordinator.Start());
  core->coordinator.scheduler().Start();
  storage.artifacts->Start();
  return absl::OkStatus();
}

absl::Status Server::Parts::Listen() {
  GrpcServer::Options options;
  options.listen = config.listen;
  options.socket = config.socket;
  options.grants = &config.grants;
  options.tokens = storage.tokens.get();
  options.audit = storage.audit.get();
  options.trusts_loopback = config.trusts_loopback;
  options.tls = config.tls;
  options.proxy_socket = config.proxy_socket;
  options.max_connections = MaxConnections(DescriptorLimit());
  options.log = [](const std::string& line) { Log(spdlog::level::warn, line); };
  options.coordinator = &core->coordinator;
  options.store = storage.store.get();
  options.artifacts = storage.artifacts.get();
  options.hub = &feeds.hub;
  options.progress = &feeds.progress;
  options.streams = &feeds.streams;
  options.clock = &SystemClock();
  options.observer = &calls;
  AMPD_ASSIGN_OR_RETURN(grpc, GrpcServer::Start(options));
  http::Listener::Options serving;
  serving.address = config.metrics_listen;
  serving.max_connections = static_cast<int>(std::clamp<int64_t>(DescriptorLimit() / 16, 4, 256));
  serving.router = ServerRoutes([this] { return page.Render(absl::Now()); }, [this] { return health.WhatFails(); });
  AMPD_ASSIGN_OR_RETURN(listener, http::Listener::Start(std::move(serving)));
  ticker.Start(kTick, [this](int64_t num_ticks) { Tick(num_ticks); });
  return absl::OkStatus();
}

void Server::Parts::Tick(int64_t num_ticks) {
  core->coordinator.Tick();
  CheckFolder();
  if (num_ticks % kTicksPerLook == 0) {
    calls.Flush();
    EndDeniedStreams();
    page.Look(absl::Now());
    health.Look();
  }
  if (num_ticks % kTicksPerSweep == 0) {
    follower->SweepHistories(core->coordinator.queries(), config.retention);
  }
}

ScrapePage::Options Server::Parts::PageOptions(std::shared_ptr<prometheus::Collectable> beside) {
  return {.metrics = &metrics,
          .take_snapshot = [this](absl::Time now) { return core->snapshotter.TakeSnapshot(now); },
          .update_metrics = [this] { UpdateMetrics(); },
          .more = {std::make_shared<ProcessCollector>(), std::move(beside)}};
}

// Copies the totals of other parts into the metrics. Only a scrape calls it, and scrapes begin when the gRPC server
// exists.
void Server::Parts::UpdateMetrics() {
  const Ledger::Counters counters = storage.ledger->counters();
  metrics.SetJournal(counters.num_groups, counters.num_updates);
  metrics.SetPointsDropped(feeds.hub.num_points_dropped());
  const Acceptor::Counters connections = grpc->connections();
  metrics.SetConnections(connections.num_open, connections.num_refused, connections.num_evicted);
}

void Server::Parts::EndDeniedStreams() {
  if (const int num_ended = grpc->EndDeniedStreams(); num_ended > 0) {
    Log(spdlog::level::info, "ended streams whose callers may not call them any more",
        {{"streams", std::to_string(num_ended)}});
  }
}

// Reports a fatal error if the data directory is gone, because nothing that the server acknowledges would then be
// durable.
void Server::Parts::CheckFolder() {
  const absl::Status status = storage.folder->Check();
  if (status.ok() || std::exchange(storage.is_lost, true)) {
    return;
  }
  Log(spdlog::level::critical, std::string(status.message()));
  health.Look();
  if (on_fatal) {
    on_fatal(status);
  }
}

HealthMonitor::Options Server::Parts::HealthOptions() {
  return {.has_disk_room = [this] { return storage.ledger->HasRoomForSubmits(); },
          .check_folder = [this] { return storage.folder->Check(); },
          .has_connection_room = [this] { return grpc->HadConnectionRoom(); },
          .show =
              [this](const HealthMonitor::Results& results) {
                grpc->ShowHealth(results);
                metrics.SetHealth(results);
              },
          .log = [](bool is_good,
                    const std::string& line) { Log(is_good ? spdlog::level::info : spdlog::level::warn, line); }};
}

// Stops all parts in order. A second call does nothing.
void Server::Parts::Stop() {
  health.BeginLeaving();
  if (grpc != nullptr) {
    grpc->Drain(config.drain_grace);
  }
  ticker.Stop();
  listener.reset();
  if (storage.artifacts != nullptr) {
    storage.artifacts->Stop();  // Its thread calls the coordinator, which still exists here.
  }
  if (core != nullptr) {
    core->coordinator.scheduler().Stop();  // Its thread commits to the ledger, which still exists here.
  }
  // The ledger is destroyed first. It commits the updates that are still queued and calls the coordinator's listener
  // for them.
  storage.ledger.reset();
  grpc.reset();
  core.reset();
  storage.artifacts.reset();
  storage.store.reset();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                                      std::shared_ptr<prometheus::Collectable> more,
                                                      std::function<void(const absl::Status&)> on_fatal) {
  auto parts = std::make_unique<Parts>(config, std::move(more), std::move(on_fatal));
  if (config.listen.has_value()) {
    AMPD_RETURN_IF_ERROR(CheckBindable(*config.listen));
  }
  AMPD_RETURN_IF_ERROR(CheckBindable(config.metrics_listen));
  // From here on, if a step fails, the destructor of Server stops the parts that were started, in order.
  std::unique_ptr<Server> server(new Server(std::move(parts)));
  AMPD_RETURN_IF_ERROR(server->parts_->OpenStorage());
  AMPD_RETURN_IF_ERROR(server->parts_->StartCore());
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
