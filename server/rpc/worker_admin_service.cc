#include "server/rpc/worker_admin_service.h"

#include <utility>

#include "base/status_macros.h"

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

grpc::ServerUnaryReactor* WorkerAdminService::ListWorkers(grpc::CallbackServerContext* context,
                                                          const v1::ListWorkersRequest* request,
                                                          v1::ListWorkersResponse* response) {
  return ServeBlocking(*environment_, context, "ampd.v1.WorkerAdminService/ListWorkers", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(*response, sessions_->ListWorkers(*request));
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* WorkerAdminService::DrainWorker(grpc::CallbackServerContext* context,
                                                          const v1::DrainWorkerRequest* request, v1::Worker* response) {
  return ServeUnary(
      *environment_, context, "ampd.v1.WorkerAdminService/DrainWorker", *request,
      [=, this](FinishCall finish) { sessions_->DrainWorker(*request, AnswerWorker(response, std::move(finish))); });
}

grpc::ServerUnaryReactor* WorkerAdminService::UndrainWorker(grpc::CallbackServerContext* context,
                                                            const v1::UndrainWorkerRequest* request,
                                                            v1::Worker* response) {
  return ServeUnary(
      *environment_, context, "ampd.v1.WorkerAdminService/UndrainWorker", *request,
      [=, this](FinishCall finish) { sessions_->UndrainWorker(*request, AnswerWorker(response, std::move(finish))); });
}

grpc::ServerUnaryReactor* WorkerAdminService::RemoveWorker(grpc::CallbackServerContext* context,
                                                           const v1::RemoveWorkerRequest* request,
                                                           v1::RemoveWorkerResponse* /*response*/) {
  return ServeUnary(*environment_, context, "ampd.v1.WorkerAdminService/RemoveWorker", *request,
                    [=, this](FinishCall finish) { sessions_->RemoveWorker(*request, std::move(finish)); });
}

}  // namespace ampd::server
