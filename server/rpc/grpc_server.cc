#include "server/rpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_posix.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/grpc_deadline.h"
#include "base/grpc/tls_credentials.h"
#include "base/status_macros.h"
#include "base/tls/trust.h"
#include "server/rpc/artifact_service.h"
#include "server/rpc/auth_service.h"
#include "server/rpc/calls/guard.h"
#include "server/rpc/calls/ticker.h"
#include "server/rpc/calls/work_pool.h"
#include "server/rpc/connection_limits.h"
#include "server/rpc/connections/connection_audit.h"
#include "server/rpc/connections/peers.h"
#include "server/rpc/connections/socket_acceptor.h"
#include "server/rpc/job_service.h"
#include "server/rpc/worker_admin_service.h"
#include "server/rpc/worker_service.h"

namespace ampd::server {
namespace {

constexpr int kNumPoolThreads = 4;
// The number of threads for uploads. The end of an upload syncs the whole file and reads it back; a disk handles about
// two of these at a time well.
constexpr int kNumUploadThreads = 2;
constexpr int kNumModelThreads = 2;  // While one reads a model, the other serves cached models.
constexpr size_t kMaxPoolTasks = 4096;
// The most estimates that may wait. Each may take seconds.
constexpr size_t kMaxEstimates = 64;
// The time for unary calls in flight to finish, after all streams have ended.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);

// Half of the cores, because estimates are compute-bound.
int NumEstimateThreads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2); }

}  // namespace

// Members are destroyed in reverse order: the last one first.
struct GrpcServer::Parts {
  explicit Parts(const Options& options)
      : trust(options.tls.ca.empty() ? nullptr : std::make_unique<Trust>(options.tls.ca)),
        call_limits(options.limits, options.clock),
        guard({.peers = &peers,
               .tokens = options.tokens,
               .find_job = [queries =
                                &options.coordinator->queries()](const std::string& job) -> absl::StatusOr<JobFacts> {
                 AMPD_ASSIGN_OR_RETURN(const JobPtr found, queries->GetJob(job));
                 return JobFacts{.tenant = found->tenant(), .owner = found->owner()};
               },
               .trusts_loopback = options.trusts_loopback,
               .grants = options.grants,
               .trust = trust.get(),
               .listens_with_tls = !options.tls.certificate.empty(),
               .limits = &call_limits,
               .has_memory = options.has_memory,
               .provider = options.provider}),
        hub(options.hub),
        streams(options.streams),
        pool(kNumPoolThreads, kMaxPoolTasks),
        uploads(kNumUploadThreads, kMaxPoolTasks),
        model_pool(kNumModelThreads, kMaxPoolTasks),
        estimate_pool(NumEstimateThreads(), kMaxEstimates),
        audit(options.audit, &guard),
        connection_audit(std::make_shared<ConnectionAudit>(options.audit, options.grants, options.clock)),
        environment{&guard,         options.observer, &pool,  &model_pool,
                    &estimate_pool, &open_streams,    &audit, options.limits},
        relays(options.clock),
        jobs({.environment = &environment,
              .commands = &options.coordinator->commands(),
              .queries = &options.coordinator->queries(),
              .models = &options.coordinator->models(),
              .store = options.store,
              .hub = options.hub,
              .progress = options.progress,
              .clock = options.clock,
              .ticker = &ticker,
              .relays = &relays,
              .streams = options.streams}),
        workers({.environment = &environment,
                 .sessions = &options.coordinator->sessions(),
                 .queries = &options.coordinator->queries(),
                 .store = options.store,
                 .artifacts = options.artifacts,
                 .streams = options.streams,
                 .relays = &relays,
                 .clock = options.clock}),
        admin(&environment, &options.coordinator->sessions()),
        artifacts({&environment, options.artifacts, &uploads, &ticker}),
        auth(&environment, options.tokens, options.audit) {}

  Peers peers;
  const std::unique_ptr<Trust> trust;  // Null: no TLS.
  CallLimits call_limits;
  Guard guard;
  MetricsHub* hub;
  WorkerStreams* streams;
  WorkPool pool;
  WorkPool uploads;
  WorkPool model_pool;
  WorkPool estimate_pool;
  OpenStreams open_streams;
  Audit audit;
  const std::shared_ptr<ConnectionAudit> connection_audit;
  CallEnvironment environment;
  Ticker ticker;
  FileRelays relays;
  JobService jobs;
  WorkerService workers;
  WorkerAdminService admin;
  ArtifactService artifacts;
  AuthService auth;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> taker;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Acceptor> acceptor;               // Null: Options::listen is not set.
  std::unique_ptr<SocketAcceptor> socket_acceptor;  // Null: no socket.
  const Grants proxy_users{{geteuid(), 0}};         // Users that may connect to the proxy's socket.
  std::unique_ptr<SocketAcceptor> proxy_acceptor;   // Null: no socket for a proxy.
  bool drained = false;

  absl::Status Bind(const Options& options) {
    if (options.listen.has_value()) {
      AMPD_RETURN_IF_ERROR(BindLoopback(options));
    }
    if (!options.proxy_socket.empty()) {
      AMPD_RETURN_IF_ERROR(BindProxySocket(options));
    }
    return options.socket.empty() ? absl::OkStatus() : BindSocket(options);
  }

  // Only the user of this server may connect to the proxy's socket. Its folder must be closed to other users too,
  // because a user who could replace the socket's file would receive the calls, with their tokens.
  absl::Status BindProxySocket(const Options& options) {
    const std::string folder = std::filesystem::path(options.proxy_socket).parent_path().string();
    struct stat status = {};
    const bool is_there = stat(folder.empty() ? "." : folder.c_str(), &status) == 0;
    if (!is_there || (status.st_mode & 0077) != 0 || (status.st_uid != geteuid() && status.st_uid != 0)) {
      return Error(absl::StatusCode::kFailedPrecondition, "PROXY_FOLDER_IS_OPEN",
                   absl::StrCat("the folder of --proxy-socket ", options.proxy_socket,
                                " must exist, belong to the server's user and be closed to others; to make it: install "
                                "-d -m 0700 FOLDER"));
    }
    SocketAcceptor::Options accepting;
    accepting.path = options.proxy_socket;
    accepting.max_connections = options.max_connections;
    accepting.grants = &proxy_users;
    accepting.log = options.log;
    accepting.on_connection = [this](UniqueFd connection, Peer peer) {
      if (peer.identity.has(Right::kAdminister)) {  // Checked again, although other users can't open the file.
        peer.is_proxy = true;
        peers.Set(connection.get(), peer);
        grpc::AddInsecureChannelFromFd(server.get(), connection.Release());
      }
    };
    AMPD_ASSIGN_OR_RETURN(proxy_acceptor, SocketAcceptor::Bind(std::move(accepting)));
    return absl::OkStatus();
  }

  absl::Status BindSocket(const Options& options) {
    SocketAcceptor::Options accepting;
    accepting.path = options.socket;
    accepting.mode = options.grants->empty() ? 0600 : 0666;
    accepting.max_connections = options.max_connections;
    accepting.grants = options.grants;
    accepting.log = options.log;
    accepting.on_connection = [this](UniqueFd connection, const Peer& peer) {
      peers.Set(connection.get(), peer);
      grpc::AddInsecureChannelFromFd(server.get(), connection.Release());
    };
    AMPD_ASSIGN_OR_RETURN(socket_acceptor, SocketAcceptor::Bind(std::move(accepting)));
    return absl::OkStatus();
  }

  absl::Status BindLoopback(const Options& options) {
    Acceptor::Options accepting;
    accepting.address = *options.listen;
    accepting.max_connections = options.max_connections;
    accepting.has_tls = !options.tls.certificate.empty();
    accepting.log = options.log;
    accepting.on_connection = [this](UniqueFd connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.fd = connection.Release();
      taker->HandleNewConnection(&parameters);
    };
    AMPD_ASSIGN_OR_RETURN(acceptor, Acceptor::Bind(std::move(accepting)));
    return absl::OkStatus();
  }
};

GrpcServer::GrpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

GrpcServer::~GrpcServer() {
  Drain(absl::ZeroDuration());
  parts_->connection_audit->Detach();
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto parts = std::make_unique<Parts>(options);
  AMPD_RETURN_IF_ERROR(parts->Bind(options));
  grpc::ServerBuilder builder;
  SetConnectionLimits(&builder, options.memory_limit_bytes);
  parts->taker = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      options.tls.certificate.empty()
          ? grpc::InsecureServerCredentials()
          : ServerTlsCredentials(options.tls, [connections = parts->connection_audit](const std::string& name) {
              connections->Connected(name);
            }));
  builder.RegisterService(&parts->jobs);
  builder.RegisterService(&parts->workers);
  builder.RegisterService(&parts->admin);
  builder.RegisterService(&parts->artifacts);
  builder.RegisterService(&parts->auth);
  parts->pool.Start();
  parts->uploads.Start();
  parts->model_pool.Start();
  parts->estimate_pool.Start();
  parts->ticker.Start();
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr) {
    parts->drained = true;
    return Error(absl::StatusCode::kInternal, "SERVER_NOT_STARTED", "gRPC did not start");
  }
  std::unique_ptr<GrpcServer> server(new GrpcServer(std::move(parts)));
  std::array<bool, std::size(kHealthChecks)> healthy = {};
  healthy.fill(true);
  server->ShowHealth(healthy);
  if (server->parts_->acceptor != nullptr) {
    server->parts_->acceptor->Start();
  }
  for (const auto* acceptor : {&server->parts_->socket_acceptor, &server->parts_->proxy_acceptor}) {
    if (*acceptor != nullptr) {
      (*acceptor)->Start();
    }
  }
  return server;
}

int GrpcServer::port() const { return parts_->acceptor == nullptr ? 0 : parts_->acceptor->address().port; }

Acceptor::Counters GrpcServer::connections() const {
  Acceptor::Counters all = parts_->acceptor == nullptr ? Acceptor::Counters() : parts_->acceptor->counters();
  for (const auto* acceptor : {&parts_->socket_acceptor, &parts_->proxy_acceptor}) {
    const Acceptor::Counters more = *acceptor == nullptr ? Acceptor::Counters() : (*acceptor)->counters();
    all.num_accepted += more.num_accepted;
    all.num_refused += more.num_refused;
    all.num_evicted += more.num_evicted;
    all.num_open += more.num_open;
  }
  return all;
}

std::vector<WatchedListener> GrpcServer::Listeners() {
  std::vector<WatchedListener> listeners;
  if (Acceptor* const acceptor = parts_->acceptor.get(); acceptor != nullptr) {
    listeners.push_back({.name = acceptor->address().ToString(),
                         .num_accepts = [acceptor] { return acceptor->num_accepts(); },
                         .probe = [acceptor] { return acceptor->Probe(kProbeTimeout); },
                         .restart = [acceptor] { return acceptor->Restart(); }});
  }
  for (SocketAcceptor* const acceptor : {parts_->socket_acceptor.get(), parts_->proxy_acceptor.get()}) {
    if (acceptor != nullptr) {
      listeners.push_back({.name = absl::StrCat("the socket ", acceptor->path()),
                           .num_accepts = [acceptor] { return acceptor->num_accepts(); },
                           .probe = [acceptor] { return acceptor->Probe(kProbeTimeout); },
                           .restart = [acceptor] { return acceptor->Restart(); }});
    }
  }
  return listeners;
}

CallLimits* GrpcServer::call_limits() { return &parts_->call_limits; }

Audit* GrpcServer::audit() { return &parts_->audit; }

bool GrpcServer::HadConnectionRoom() {
  const bool on_loopback = parts_->acceptor == nullptr || parts_->acceptor->HadRoom();
  const bool on_socket = parts_->socket_acceptor == nullptr || parts_->socket_acceptor->HadRoom();
  const bool by_proxy = parts_->proxy_acceptor == nullptr || parts_->proxy_acceptor->HadRoom();
  return on_loopback && on_socket && by_proxy;
}

int GrpcServer::EndDeniedStreams() {
  if (parts_->trust != nullptr) {
    parts_->trust->Refresh();
  }
  return parts_->open_streams.EndDenied([this](const grpc::ServerContextBase& context, std::string_view method) {
    return parts_->guard.TenantsFor(context, method);
  });
}

void GrpcServer::ShowHealth(const std::array<bool, std::size(kHealthChecks)>& results) {
  grpc::HealthCheckServiceInterface* const health = parts_->server->GetHealthCheckService();
  for (size_t i = 0; i < results.size(); ++i) {
    health->SetServingStatus(kHealthChecks[i].name, results[i]);
  }
  const bool all = std::all_of(results.begin(), results.end(), [](bool good) { return good; });
  for (const char* service : {"", "ampd.v1.JobService", "ampd.v1.WorkerService", "ampd.v1.WorkerAdminService",
                              "ampd.v1.ArtifactService", "ampd.v1.AuthService"}) {
    health->SetServingStatus(service, all);
  }
}

void GrpcServer::Drain(absl::Duration grace) {
  if (std::exchange(parts_->drained, true) || parts_->server == nullptr) {
    return;
  }
  parts_->server->GetHealthCheckService()->Shutdown();
  // Streams end before the listener stops. Otherwise their final status would not reach the clients.
  parts_->hub->Close();
  parts_->streams->Close();
  parts_->open_streams.BeginClosing();
  parts_->open_streams.AwaitNone(grace);
  if (parts_->acceptor != nullptr) {
    parts_->acceptor->Stop();
  }
  for (const auto* acceptor : {&parts_->socket_acceptor, &parts_->proxy_acceptor}) {
    if (*acceptor != nullptr) {
      (*acceptor)->Stop();
    }
  }
  // The wait has a limit. Shutdown also waits until idle clients close their connections, and some never do.
  parts_->server->Shutdown(GrpcDeadlineIn(std::min(grace, kLastWords)));
  parts_->ticker.Stop();
  // The pool stops only after the streams have ended, because a task may still be sending a directive to one of them.
  parts_->pool.Stop();
  parts_->uploads.Stop();
  parts_->model_pool.Stop();  // Its tasks post to the next pool.
  parts_->estimate_pool.Stop();
}

}  // namespace ampd::server
