#pragma once

#include "ampd/v1/worker_service.grpc.pb.h"
#include "server/artifacts/artifact_store.h"
#include "server/coordinator/job_queries.h"
#include "server/coordinator/worker_sessions.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/file_relay.h"
#include "server/rpc/worker_streams.h"
#include "server/telemetry/metric_store.h"

namespace ampd::server {

// Implements ampd.v1.WorkerService: the streams of the agents. Thread-safe.
class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  struct Options {
    const CallEnvironment* environment = nullptr;
    WorkerSessions* sessions = nullptr;
    const JobQueries* queries = nullptr;
    MetricStore* store = nullptr;
    ArtifactStore* artifacts = nullptr;
    WorkerStreams* streams = nullptr;
    FileRelays* relays = nullptr;
    const Clock* clock = nullptr;
  };
  explicit WorkerService(const Options& options) : options_(options) {}

  grpc::ServerBidiReactor<v1::WorkerReport, v1::WorkerDirective>* Attach(grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::TelemetryUpload, v1::TelemetryAck>* ReportTelemetry(
      grpc::CallbackServerContext* context) override;
  grpc::ServerReadReactor<v1::FilePiece>* SendFile(grpc::CallbackServerContext* context,
                                                   google::protobuf::Empty* response) override;

 private:
  const Options options_;
};

}  // namespace ampd::server
