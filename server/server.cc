#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/http/listener.h"
#include "base/io/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/artifacts/artifact_store.h"
#include "server/coordinator/coordinator.h"
#include "server/core.h"
#include "server/http/http_guard.h"
#include "server/http/server_routes.h"
#include "server/ledger/ledger.h"
#include "server/monitoring/call_log.h"
#include "server/monitoring/health_monitor.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/listener_watch.h"
#include "server/monitoring/memory_watch.h"
#include "server/monitoring/metrics.h"
#include "server/monitoring/resource_collector.h"
#include "server/monitoring/scrape_page.h"
#include "server/monitoring/snapshot_collector.h"
#include "server/oidc/identity_provider.h"
#include "server/periodic_thread.h"
#include "server/rpc/connections/acceptor.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/worker_streams.h"
#include "server/state_follower.h"
#include "server/storage.h"
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
constexpr absl::Duration kBetweenProbes = absl::Seconds(5);
// If fewer descriptors than this are free, it is normal that listeners accept no connections.
constexpr int64_t kDescriptorsForProbes = 16;

int64_t MemoryLimit(const ServerConfig& config) {
  return config.memory_limit_bytes.has_value() ? *config.memory_limit_bytes : MemoryOfSystem() / 4 * 3;
}

// The parts that serve workers and watching clients.
struct Feeds {
  ProgressBoard progress;
  MetricsHub hub;
  WorkerStreams streams;
};

}  // namespace

// Members are destroyed in reverse order: the last one first.
struct Server::Parts {
  Parts(const ServerConfig& with, std::shared_ptr<prometheus::Collectable> beside,
        std::function<void(const absl::Status&)> fatal)
      : config(with),
        grants(with.grants),
        limits(with.limits),
        on_fatal(std::move(fatal)),
        memory({.limit_bytes = MemoryLimit(with), .clock = &SystemClock()}),
        table(with.metrics_linger),
        page(PageOptions(std::move(beside))) {}

  Storage::Answers AnswersForStorage();
  absl::Status StartCore();
  void StartProvider();
  absl::Status Listen();
  absl::Status ListenForHttp();
  ScrapePage::Options PageOptions(std::shared_ptr<prometheus::Collectable> beside);
  HealthMonitor::Options HealthOptions();
  void UpdateMetrics();
  void Tick(int64_t num_ticks);
  void CheckFolder();
  void WatchListeners();
  // Logs the error and calls `on_fatal`. Does so only once.
  void Fail(const absl::Status& status);
  void EndDeniedStreams();
  void Stop();

  const ServerConfig config;  // The configuration at the start; never changes.
  Grants grants;              // SetRights may change this member and the next.
  Limits limits;
  const std::function<void(const absl::Status&)> on_fatal;
  std::atomic<bool> has_failed = false;  // Whether `on_fatal` was called.
  MemoryWatch memory;
  ServerMetrics metrics;
  CallLog calls{&metrics, &SystemClock()};
  JobTable table;
  Feeds feeds;
  TelemetryFollower telemetry{&feeds.progress, &feeds.hub, &metrics, &table};
  Storage storage;
  ScrapePage page;
  std::unique_ptr<StateFollower> follower;
  std::unique_ptr<Core> core;
  HealthMonitor health{HealthOptions()};
  std::unique_ptr<IdentityProvider> provider;  // Null: no identity provider.
  std::unique_ptr<GrpcServer> grpc;
  std::optional<HttpGuard> http_guard;
  std::unique_ptr<http::Listener> listener;
  std::unique_ptr<ListenerWatch> listeners;
  PeriodicThread ticker;
  PeriodicThread prober;
};

// Returns functions that ask the coordinator on behalf of the stores. The stores call them only after their start, when
// the coordinator exists.
Storage::Answers Server::Parts::AnswersForStorage() {
  return {.telemetry = &telemetry,
          .tenant_quota = [this](const std::string& tenant) { return limits.OfTenant(tenant).artifact_bytes; },
          .live_uploads =
              [this] {
                std::map<std::string, std::string> live;
                for (const JobQueries::LiveArtifact& artifact : core->coordinator.queries().LiveArtifacts()) {
                  live.emplace(UploadKey(artifact.tenant, artifact.sha256), artifact.job);
                }
                return live;
              },
          .job_exists =
              [this](const std::string& job) {
                const absl::StatusOr<JobPtr> found = core->coordinator.queries().GetJob(job);
                return absl::IsNotFound(found.status()) ? false : !found.ok() || !(*found)->history_deleted();
              },
          .clock_is_steady = [this] { return core->coordinator.expiry().ClockIsSteady(); }};
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

void Server::Parts::StartProvider() {
  if (!config.oidc.empty()) {
    provider = std::make_unique<IdentityProvider>(
        IdentityProvider::Options{.config = config.oidc, .clock = &SystemClock(), .log = [](const std::string& line) {
                                    Log(spdlog::level::warn, line);
                                  }});
    provider->Start();
  }
}

absl::Status Server::Parts::Listen() {
  StartProvider();
  GrpcServer::Options options;
  options.listen = config.listen;
  options.socket = config.socket;
  options.grants = &grants;
  options.limits = &limits;
  options.tokens = storage.tokens.get();
  options.provider = provider.get();
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
  options.has_memory = [this] { return memory.HasRoom(); };
  options.memory_limit_bytes = MemoryLimit(config);
  AMPD_ASSIGN_OR_RETURN(grpc, GrpcServer::Start(options));
  AMPD_RETURN_IF_ERROR(ListenForHttp());
  ticker.Start(kTick, [this](int64_t num_ticks) { Tick(num_ticks); });
  return absl::OkStatus();
}

absl::Status Server::Parts::ListenForHttp() {
  http_guard.emplace(HttpGuard::Options{.credentials = {storage.tokens.get(), &grants, provider.get()},
                                        .trusts_everybody = config.trusts_loopback && config.metrics_tls.empty(),
                                        .limits = grpc->call_limits(),
                                        .audit = grpc->audit(),
                                        .observer = &calls});
  http::Listener::Options serving;
  serving.address = config.metrics_listen;
  serving.tls = config.metrics_tls;
  serving.max_connections = static_cast<int>(std::clamp<int64_t>(DescriptorLimit() / 16, 4, 256));
  serving.router = ServerRoutes(
      &*http_guard, {.metrics = [this](const Tenants& of) { return page.Render(absl::Now(), of); },
                     .worker_targets = [this](const Tenants& of) { return page.RenderTargets(absl::Now(), of); },
                     .what_fails = [this] { return health.WhatFails(); },
                     .what_is_dead = [this] { return listeners == nullptr ? "" : listeners->WhatFails(); }});
  AMPD_ASSIGN_OR_RETURN(listener, http::Listener::Start(std::move(serving)));
  WatchListeners();
  return absl::OkStatus();
}

void Server::Parts::Tick(int64_t num_ticks) {
  core->coordinator.Tick();
  CheckFolder();
  if (num_ticks % kTicksPerLook == 0) {
    calls.Flush();
    EndDeniedStreams();
    page.Look(absl::Now());
    Fail(memory.Look());
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
          .more = {std::make_shared<ProcessCollector>(),
                   std::make_shared<ResourceCollector>(
                       ResourceCollector::Options{.data_dir = config.data_dir,
                                                  .certificates = {{"api", config.tls.certificate},
                                                                   {"api-client-ca", config.tls.ca},
                                                                   {"metrics", config.metrics_tls.certificate},
                                                                   {"metrics-client-ca", config.metrics_tls.ca}}}),
                   std::move(beside)}};
}

// Copies the totals of other parts into the metrics. Called only by a scrape, and scrapes begin after the gRPC server
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
  health.Look();
  Fail(status);
}

void Server::Parts::Fail(const absl::Status& status) {
  if (status.ok() || has_failed.exchange(true)) {
    return;
  }
  Log(spdlog::level::critical, std::string(status.message()));
  if (on_fatal) {
    on_fatal(status);
  }
}

void Server::Parts::WatchListeners() {
  ListenerWatch::Options options;
  options.listeners = grpc->Listeners();
  http::Listener* const metrics_listener = listener.get();
  options.listeners.push_back({.name = ListenAddress{config.metrics_listen.host, listener->port()}.ToString(),
                               .num_accepts = [metrics_listener] { return metrics_listener->num_accepts(); },
                               .probe = [metrics_listener] { return metrics_listener->Probe(kProbeTimeout); },
                               .restart = [metrics_listener] { return metrics_listener->Restart(); }});
  options.has_descriptors = [] { return DescriptorsLeft() >= kDescriptorsForProbes; };
  options.log = [](bool is_good, const std::string& line) {
    Log(is_good ? spdlog::level::info : spdlog::level::warn, line);
  };
  listeners = std::make_unique<ListenerWatch>(std::move(options));
  // Probes the listeners before clients come, because a listener counts as broken only if an earlier probe reached it.
  Fail(listeners->Look());
  prober.Start(kBetweenProbes, [this](int64_t) { Fail(listeners->Look()); });
}

HealthMonitor::Options Server::Parts::HealthOptions() {
  return {.has_disk_room = [this] { return storage.ledger->HasRoomForSubmits(); },
          .check_folder = [this] { return storage.folder->Check(); },
          .has_connection_room = [this] { return grpc->HadConnectionRoom(); },
          .has_memory = [this] { return memory.HasRoom(); },
          .listeners_accept = [this] { return listeners->AllAccept(); },
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
  prober.Stop();  // It must not restart a listener that is being stopped.
  if (grpc != nullptr) {
    grpc->Drain(config.drain_grace);
  }
  ticker.Stop();
  listener.reset();
  if (provider != nullptr) {
    provider->Stop();
  }
  if (storage.artifacts != nullptr) {
    storage.artifacts->Stop();  // Its thread calls the coordinator, which must still exist.
  }
  if (core != nullptr) {
    core->coordinator.scheduler().Stop();  // Its thread commits to the ledger, which must still exist.
  }
  // The ledger is destroyed before the coordinator, because it commits the updates that are still queued and then calls
  // the coordinator's listener.
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
  // If a step below fails, the destructor of Server stops the parts that were started, in order.
  std::unique_ptr<Server> server(new Server(std::move(parts)));
  AMPD_RETURN_IF_ERROR(server->parts_->storage.Open(config, server->parts_->AnswersForStorage()));
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

bool Server::MayTakeGrants(const Grants& grants) const { return grants.empty() == parts_->grants.empty(); }

void Server::SetRights(const Grants& grants, const Limits& limits) {
  if (MayTakeGrants(grants)) {
    parts_->grants = grants;
  }
  parts_->limits = limits;
}

void Server::Stop() { parts_->Stop(); }

}  // namespace ampd::server
