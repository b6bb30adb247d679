#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "ampd/v1/artifact_service.grpc.pb.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "ampd/v1/worker_admin_service.grpc.pb.h"

namespace ampd::client {

// The gRPC part of JobClient. It is a separate struct, so that the header of JobClient does not include gRPC's.
struct JobClientStubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::WorkerAdminService::Stub> workers;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts;
};

}  // namespace ampd::client
