#pragma once

#include <string>

#include "ampd/v1/worker_admin_service.grpc.pb.h"
#include "server/coordinator/worker_sessions.h"
#include "server/rpc/calls/call.h"

namespace ampd::server {

// Implements ampd.v1.WorkerAdminService with the sessions of the workers. Thread-safe.
class WorkerAdminService final : public v1::WorkerAdminService::CallbackService {
 public:
  WorkerAdminService(const CallEnvironment* environment, WorkerSessions* sessions)
      : environment_(environment), sessions_(sessions) {}

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext*, const v1::ListWorkersRequest*,
                                        v1::ListWorkersResponse*) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext*, const v1::DrainWorkerRequest*,
                                        v1::Worker*) override;
  grpc::ServerUnaryReactor* UndrainWorker(grpc::CallbackServerContext*, const v1::UndrainWorkerRequest*,
                                          v1::Worker*) override;
  grpc::ServerUnaryReactor* RemoveWorker(grpc::CallbackServerContext*, const v1::RemoveWorkerRequest*,
                                         v1::RemoveWorkerResponse*) override;

 private:
  // Returns OK if the caller may change the worker. The caller must be an operator of all tenants that the worker
  // serves.
  absl::Status CheckWorker(const grpc::CallbackServerContext& context, const std::string& worker) const;

  const CallEnvironment* const environment_;
  WorkerSessions* const sessions_;
};

}  // namespace ampd::server
