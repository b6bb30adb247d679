#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "ampd/v1/artifact_service.grpc.pb.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "ampd/v1/worker_admin_service.grpc.pb.h"

namespace ampd::client {

// The gRPC objects of JobClient. They are in a separate struct so that job_client.h includes no header of gRPC.
struct JobClientStubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::WorkerAdminService::Stub> workers;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts;
};

}  // namespace ampd::client
