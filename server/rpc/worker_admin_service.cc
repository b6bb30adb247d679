#include "server/rpc/worker_admin_service.h"

#include <utility>

#include "base/api/tenants.h"
#include "base/status_macros.h"
#include "server/access/rules.h"

namespace ampd::server {
namespace {

WorkerSessions::WorkerDone AnswerWorker(v1::Worker* response, FinishCall finish) {
  return [response, finish = std::move(finish)](const absl::StatusOr<v1::Worker>& worker) {
    if (worker.ok()) {
      *response = *worker;
    }
    finish(worker.status());
  };
}

}  // namespace

absl::Status WorkerAdminService::CheckWorker(const grpc::CallbackServerContext& context,
                                             const std::string& worker) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, environment_->guard->IdentityOf(context));
  if (identity.TenantsWith(Right::kOperate).all()) {
    return absl::OkStatus();  // The worker may also be one whose registration is not committed yet.
  }
  AMPD_ASSIGN_OR_RETURN(const Tenants serves, sessions_->TenantsOf(worker));
  return CheckWorkersTenants(identity, worker, serves);
}

grpc::ServerUnaryReactor* WorkerAdminService::ListWorkers(grpc::CallbackServerContext* context,
                                                          const v1::ListWorkersRequest* request,
                                                          v1::ListWorkersResponse* response) {
  return ServeBlocking(
      *environment_, context, "ampd.v1.WorkerAdminService/ListWorkers", *request, [=, this]() -> absl::Status {
        AMPD_ASSIGN_OR_RETURN(const Identity identity, environment_->guard->IdentityOf(*context));
        AMPD_ASSIGN_OR_RETURN(*response, sessions_->ListWorkers(*request, identity.TenantsWith(Right::kRead)));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* WorkerAdminService::DrainWorker(grpc::CallbackServerContext* context,
                                                          const v1::DrainWorkerRequest* request, v1::Worker* response) {
  return ServeUnary(*environment_, context, "ampd.v1.WorkerAdminService/DrainWorker", *request,
                    [=, this](const FinishCall& finish) {
                      const absl::Status may = CheckWorker(*context, request->name());
                      may.ok() ? sessions_->DrainWorker(*request, AnswerWorker(response, finish)) : finish(may);
                    });
}

grpc::ServerUnaryReactor* WorkerAdminService::UndrainWorker(grpc::CallbackServerContext* context,
                                                            const v1::UndrainWorkerRequest* request,
                                                            v1::Worker* response) {
  return ServeUnary(*environment_, context, "ampd.v1.WorkerAdminService/UndrainWorker", *request,
                    [=, this](const FinishCall& finish) {
                      const absl::Status may = CheckWorker(*context, request->name());
                      may.ok() ? sessions_->UndrainWorker(*request, AnswerWorker(response, finish)) : finish(may);
                    });
}

grpc::ServerUnaryReactor* WorkerAdminService::RemoveWorker(grpc::CallbackServerContext* context,
                                                           const v1::RemoveWorkerRequest* request,
                                                           v1::RemoveWorkerResponse* /*response*/) {
  return ServeUnary(*environment_, context, "ampd.v1.WorkerAdminService/RemoveWorker", *request,
                    [=, this](const FinishCall& finish) {
                      const absl::Status may = CheckWorker(*context, request->name());
                      may.ok() ? sessions_->RemoveWorker(*request, finish) : finish(may);
                    });
}

}  // namespace ampd::server
