// Implements the calls of JobService that compute on a model's graph: EstimateJob, ResolvePolicy, and GetJob's
// prediction of a memory peak. These calls take up to seconds for the largest models, so they run on a pool of their
// own and no other call waits for them.
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/admission/memory_query.h"
#include "server/admission/policy_query.h"
#include "server/rpc/job_service.h"

namespace ampd::server {
namespace {

graph::Work WorkFor(grpc::CallbackServerContext* context) {
  return graph::Work([context] { return context->IsCancelled(); });
}

}  // namespace

void JobService::PostEstimate(grpc::CallbackServerContext* context, const std::string& tenant,
                              const v1::ModelSpec& model, const Estimate& estimate, const FinishCall& finish) {
  const auto post = [=, this](UploadedModel found) {
    const auto status = std::make_shared<absl::Status>();
    auto compute = [=, found = std::move(found)] {
      graph::Work work = WorkFor(context);
      work.Visit(0);  // Ends the call if the client left while the call was queued.
      *status = work.status();
      if (status->ok()) {
        *status = estimate(found, work);
      }
    };
    PostOrRefuse(options_.environment->estimate_pool, finish, std::move(compute),
                 [finish, status] { finish(*status); });
  };
  if (!NamesArtifact(model)) {
    return post(UploadedModel());
  }
  const auto found = std::make_shared<absl::StatusOr<UploadedModel>>();
  PostOrRefuse(
      options_.environment->model_pool, finish, [=, this, &model] { *found = options_.models->Find(tenant, model); },
      [=] { found->ok() ? post(*std::move(*found)) : finish(found->status()); });
}

grpc::ServerUnaryReactor* JobService::EstimateJob(grpc::CallbackServerContext* context,
                                                  const v1::EstimateJobRequest* request,
                                                  v1::EstimateJobResponse* response) {
  const auto answer = [=, this](const FinishCall& finish) {
    const absl::StatusOr<std::string> tenant = ChooseTenant(IdentityOf(*context), Right::kRead, request->tenant());
    if (!tenant.ok()) {
      return finish(tenant.status());
    }
    const Estimate estimate = [=, this](const UploadedModel& model, graph::Work& work) -> absl::Status {
      const auto workers = options_.queries->WorkersFor(*tenant, request->spec());
      AMPD_ASSIGN_OR_RETURN(*response, AnswerMemoryQuery(*request, workers, model.exported.get(), &work));
      return absl::OkStatus();
    };
    PostEstimate(context, *tenant, request->spec().model(), estimate, finish);
  };
  return ServeUnary(*options_.environment, context, "ampd.v1.JobService/EstimateJob", *request, answer);
}

grpc::ServerUnaryReactor* JobService::ResolvePolicy(grpc::CallbackServerContext* context,
                                                    const v1::ResolvePolicyRequest* request,
                                                    v1::PolicyTable* response) {
  const Estimate resolve = [=](const UploadedModel& model, graph::Work&) -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(*response, AnswerPolicyQuery(*request, model.exported.get()));
    return absl::OkStatus();
  };
  const auto answer = [=, this](const FinishCall& finish) {
    const absl::StatusOr<std::string> tenant = ChooseTenant(IdentityOf(*context), Right::kRead, request->tenant());
    tenant.ok() ? PostEstimate(context, *tenant, request->model(), resolve, finish) : finish(tenant.status());
  };
  return ServeUnary(*options_.environment, context, "ampd.v1.JobService/ResolvePolicy", *request, answer);
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                             v1::Job* response) {
  return ServeOnPool(options_.environment->pool, *options_.environment, context, "ampd.v1.JobService/GetJob", *request,
                     [=, this](const FinishCall& finish) {
                       absl::StatusOr<v1::Job> job = JobWithProgress(request->id());
                       if (!job.ok()) {
                         return finish(job.status());
                       }
                       *response = *std::move(job);
                       options_.queries->AddPending(response);
                       PredictAndFinish(context, response, finish);
                     });
}

void JobService::PredictAndFinish(grpc::CallbackServerContext* context, v1::Job* job, const FinishCall& finish) {
  if (job->attempts().empty() || job->attempts().rbegin()->devices().empty()) {
    return finish(absl::OkStatus());
  }
  if (const auto known = peaks_.Find(*job); known.has_value()) {
    job->mutable_progress()->set_memory_predicted_bytes(*known);
    return finish(absl::OkStatus());
  }
  const v1::Attempt& attempt = *job->attempts().rbegin();
  const auto device = options_.queries->FindDevice(attempt.worker(), attempt.devices(0));
  if (!device.has_value()) {
    return finish(absl::OkStatus());
  }
  const auto answer = [finish] { finish(absl::OkStatus()); };
  const auto post = [=, this](UploadedModel model) {
    auto predict = [=, this, model = std::move(model)] {
      graph::Work work = WorkFor(context);
      const std::string& precision = job->attempts().rbegin()->precision();
      if (const auto peak = PredictPeak(job->spec(), precision, *device, model.exported.get(), &work); peak.ok()) {
        peaks_.Put(*job, *peak);
        job->mutable_progress()->set_memory_predicted_bytes(*peak);
      }
    };
    if (!options_.environment->estimate_pool->TryPostIfIdle(std::move(predict), answer)) {
      answer();
    }
  };
  if (!NamesArtifact(job->spec().model())) {
    return post(UploadedModel());
  }
  const auto found = std::make_shared<absl::StatusOr<UploadedModel>>();
  const bool posted = options_.environment->model_pool->TryPostIfIdle(
      [=, this] { *found = options_.models->Find(job->tenant(), job->spec().model()); },
      [=] { found->ok() ? post(*std::move(*found)) : answer(); });
  if (!posted) {
    answer();
  }
}

}  // namespace ampd::server
