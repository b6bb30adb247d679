#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "ampd/v1/job_service.grpc.pb.h"
#include "ampd/v1/worker_admin_service.grpc.pb.h"
#include "ampd/v1/worker_service.grpc.pb.h"
#include "base/grpc/server_connection.h"
#include "server/server.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {

// Returns the context for one call. The default deadline is longer than any test needs.
std::unique_ptr<grpc::ClientContext> Context(absl::Duration deadline = absl::Seconds(30));

// A spec that the server admits.
v1::JobSpec GoodSpec(const std::string& name = "test");

// Makes calls to a server, which runs in this process or in another.
class ServerAccess {
 public:
  void Connect(const ServerConnection& server);
  void Connect(const std::string& address) { Connect({.address = address, .token = "", .tls = {}}); }
  const std::string& address() const { return server_.address; }
  // Returns a channel with its own connection.
  std::shared_ptr<grpc::Channel> NewChannel() const;
  v1::JobService::Stub& jobs() { return *jobs_; }
  v1::WorkerService::Stub& workers() { return *workers_; }
  v1::WorkerAdminService::Stub& admin() { return *admin_; }

  v1::Job CreateJob(const v1::JobSpec& spec = GoodSpec());
  v1::Job GetJob(const std::string& id);

  // Whether the health service with this name is SERVING, checked on a new connection. Returns false if the call fails.
  bool IsServing(const std::string& service) const;
  // Polls until IsServing returns `wanted`. Returns false if that takes too long.
  bool AwaitServing(const std::string& service, bool wanted) const;

 private:
  ServerConnection server_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
  std::unique_ptr<v1::WorkerAdminService::Stub> admin_;
};

// The grace period of a stopping TestServer for calls in flight.
inline constexpr absl::Duration kDrainGrace = absl::Seconds(1);

// A whole server in this process. The system chooses its loopback ports, and everybody is an admin on them.
class TestServer : public ServerAccess {
 public:
  // `adjust` changes the server's configuration before each start; may be null.
  explicit TestServer(std::function<void(ServerConfig*)> adjust = nullptr);
  // Stops the server if it runs, and starts it again with the same data.
  void Restart();
  void Stop() { server_->Stop(); }
  void SetRights(const Grants& grants, const Limits& limits) { server_->SetRights(grants, limits); }
  int metrics_port() const { return server_->metrics_port(); }
  std::string data_dir() const { return folder_.Path("data"); }
  std::string socket() const { return folder_.Path("socket"); }

 private:
  const std::function<void(ServerConfig*)> adjust_;
  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
};

// A worker with one CPU. The test determines what the worker reports.
class ScriptedWorker {
 public:
  // `agent`: the id of the worker's agent, if the test needs a specific one.
  ScriptedWorker(ServerAccess* server, const std::string& name, const std::string& agent = "");
  ~ScriptedWorker();

  // Sends the present report, and reads directives until one of them answers it.
  v1::WorkerDirective Report();
  // Sends reports until the server assigns an attempt of the job to this worker, then reports the attempt as RUNNING.
  v1::AttemptKey Adopt(const std::string& job);
  void SetAttempt(const v1::AttemptKey& key, v1::Attempt::State state, const v1::Outcome* outcome = nullptr);
  // Reports that the attempt saved a checkpoint at the step, until the server has recorded it. Returns its path.
  std::string SaveCheckpoint(const v1::AttemptKey& key, int64_t step);
  // Sends no report. Returns the next directive's request for a file.
  v1::FileRequest AwaitFileRequest();
  // Reports until the server has acknowledged the outcome.
  void Finish(const v1::AttemptKey& key, uint64_t last_sequence);
  // Sends one upload on a new stream and returns the acknowledgement.
  v1::TelemetryAck Upload(const v1::AttemptKey& key, const v1::TelemetryBatch& batch, const std::string& log = "",
                          int64_t log_offset = 0);
  // Reports once, and returns the status with which the server ended the stream.
  grpc::Status ReportToBeRefused();
  grpc::Status Close();
  // Waits until the server ends the stream, and returns the stream's status.
  grpc::Status AwaitEnd();

 private:
  ServerAccess* const server_;
  v1::WorkerReport report_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerReport, v1::WorkerDirective>> stream_;
};

}  // namespace ampd::server
