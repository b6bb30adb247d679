#include "server/rpc/job_service.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/api/page_size.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "points/telemetry_batch.h"
#include "server/rpc/calls/stream.h"
#include "server/telemetry/log_session.h"
#include "server/telemetry/watch_session.h"

namespace ampd::server {
namespace {

constexpr int kDefaultPoints = 1000;
constexpr int kMaxPoints = 10'000;
constexpr int kDefaultEvents = 100;
constexpr int kMaxEvents = 1000;

// Parses a page token, which has `num_parts` unsigned numbers joined by dots. An empty token stands for zeros.
absl::StatusOr<std::vector<uint64_t>> PageToken(const std::string& token, size_t num_parts) {
  std::vector<uint64_t> parts(num_parts, 0);
  if (token.empty()) {
    return parts;
  }
  const std::vector<std::string> texts = absl::StrSplit(token, '.');
  bool good = texts.size() == num_parts;
  for (size_t i = 0; good && i < num_parts; ++i) {
    good = absl::SimpleAtoi(texts[i], &parts[i]) && parts[i] <= std::numeric_limits<int64_t>::max();
  }
  if (!good) {
    return UnknownPageToken(token);
  }
  return parts;
}

void MoveSegment(PointSegment segment, v1::ListMetricPointsResponse* response) {
  v1::ListMetricPointsResponse::Segment* to = response->add_segments();
  to->set_attempt(segment.attempt);
  to->set_superseded(segment.superseded);
  *to->mutable_steps() = std::move(*segment.batch.mutable_steps());
  *to->mutable_evals() = std::move(*segment.batch.mutable_evals());
}

// Serves a call on `pool` (ServeOnPool). If `pool` is null, serves the call on gRPC's own thread (ServeUnary).
template <typename Request, typename Work>
grpc::ServerUnaryReactor* ServeOn(WorkPool* pool, const CallEnvironment& environment,
                                  grpc::CallbackServerContext* context, std::string_view method, const Request& request,
                                  const Work& work) {
  return pool != nullptr ? ServeOnPool(pool, environment, context, method, request, work)
                         : ServeUnary(environment, context, method, request, work);
}

}  // namespace

WorkPool* JobService::PoolFor(const std::string& job) const {
  return options_.queries->IsInMemory(job) ? nullptr : options_.environment->pool;
}

WorkPool* JobService::PoolFor(const v1::ModelSpec& model) const {
  return NamesArtifact(model)             ? options_.environment->model_pool
         : model.has_initial_checkpoint() ? options_.environment->pool
                                          : nullptr;
}

JobDone JobService::AnswerJob(v1::Job* response, FinishCall finish) const {
  return [this, response, finish = std::move(finish)](const absl::StatusOr<JobPtr>& job) {
    if (job.ok()) {
      *response = **job;
      Complete(response);
    }
    finish(job.status());
  };
}

absl::StatusOr<v1::Job> JobService::JobWithProgress(const std::string& id) const {
  AMPD_ASSIGN_OR_RETURN(JobPtr job, options_.queries->GetJob(id));
  v1::Job copy = *job;
  Complete(&copy);
  return copy;
}

void JobService::Complete(v1::Job* job) const {
  options_.progress->AddTo(job);
  options_.queries->AddReportedStep(job);
  options_.queries->AddRetention(job);
}

Identity JobService::IdentityOf(const grpc::CallbackServerContext& context) const {
  return options_.environment->guard->IdentityOf(context).value_or(Identity());
}

Tenants JobService::VisibleTo(const grpc::CallbackServerContext& context) const {
  return IdentityOf(context).TenantsWith(Right::kRead);
}

absl::StatusOr<Submitter> JobService::SubmitterFor(const grpc::CallbackServerContext& context,
                                                   const std::string& wanted, const TraceContext& trace) const {
  const Identity identity = IdentityOf(context);
  AMPD_ASSIGN_OR_RETURN(std::string tenant, ChooseTenant(identity, Right::kSubmit, wanted));
  const TenantLimits limits = options_.environment->limits->OfTenant(tenant);
  return Submitter{.owner = identity.name,
                   .tenant = std::move(tenant),
                   .max_jobs = limits.jobs.value_or(0),
                   .max_spec_bytes = limits.spec_bytes.value_or(0),
                   .trace = trace};
}

std::function<absl::StatusOr<v1::Job>()> JobService::ReaderFor(const grpc::CallbackServerContext& context,
                                                               std::string_view method, const std::string& id) const {
  return [this, identity = IdentityOf(context), method, id]() -> absl::StatusOr<v1::Job> {
    AMPD_ASSIGN_OR_RETURN(v1::Job job, JobWithProgress(id));
    AMPD_RETURN_IF_ERROR(Guard::CheckJob(identity, method, id, {.tenant = job.tenant(), .owner = job.owner()}));
    return job;
  };
}

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const v1::CreateJobRequest* request, v1::Job* response) {
  const auto create = [=, this](const FinishCall& finish) {
    const absl::StatusOr<Submitter> submitter = SubmitterFor(*context, request->tenant(), finish.trace());
    submitter.ok() ? options_.commands->CreateJob(*request, AnswerJob(response, finish), *submitter)
                   : finish(submitter.status());
  };
  return ServeOn(PoolFor(request->spec().model()), *options_.environment, context, "ampd.v1.JobService/CreateJob",
                 *request, create);
}

grpc::ServerUnaryReactor* JobService::GetServerInfo(grpc::CallbackServerContext* context,
                                                    const v1::GetServerInfoRequest* request, v1::ServerInfo* response) {
  return ServeUnary(*options_.environment, context, "ampd.v1.JobService/GetServerInfo", *request,
                    [response](const FinishCall& finish) {
                      response->set_version(Version());
                      finish(absl::OkStatus());
                    });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.JobService/ListJobs", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(*response, options_.queries->ListJobs(*request, VisibleTo(*context)));
                         for (v1::Job& job : *response->mutable_jobs()) {
                           Complete(&job);
                         }
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* JobService::FindJobs(grpc::CallbackServerContext* context, const v1::FindJobsRequest* request,
                                               v1::FindJobsResponse* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.JobService/FindJobs", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(*response, options_.queries->FindJobs(*request, VisibleTo(*context)));
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request, v1::Job* response) {
  return ServeOn(
      PoolFor(request->id()), *options_.environment, context, "ampd.v1.JobService/CancelJob", *request,
      [=, this](FinishCall finish) { options_.commands->CancelJob(*request, AnswerJob(response, std::move(finish))); });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context, const v1::PauseJobRequest* request,
                                               v1::Job* response) {
  return ServeOn(
      PoolFor(request->id()), *options_.environment, context, "ampd.v1.JobService/PauseJob", *request,
      [=, this](FinishCall finish) { options_.commands->PauseJob(*request, AnswerJob(response, std::move(finish))); });
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request, v1::Job* response) {
  return ServeOn(
      PoolFor(request->id()), *options_.environment, context, "ampd.v1.JobService/ResumeJob", *request,
      [=, this](FinishCall finish) { options_.commands->ResumeJob(*request, AnswerJob(response, std::move(finish))); });
}

grpc::ServerUnaryReactor* JobService::UpdateJob(grpc::CallbackServerContext* context,
                                                const v1::UpdateJobRequest* request, v1::Job* response) {
  return ServeOn(
      PoolFor(request->id()), *options_.environment, context, "ampd.v1.JobService/UpdateJob", *request,
      [=, this](FinishCall finish) { options_.commands->UpdateJob(*request, AnswerJob(response, std::move(finish))); });
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const v1::DeleteJobRequest* request, google::protobuf::Empty*) {
  return ServeOn(PoolFor(request->id()), *options_.environment, context, "ampd.v1.JobService/DeleteJob", *request,
                 [=, this](FinishCall finish) { options_.commands->DeleteJob(*request, std::move(finish)); });
}

grpc::ServerUnaryReactor* JobService::CloneJob(grpc::CallbackServerContext* context, const v1::CloneJobRequest* request,
                                               v1::Job* response) {
  const auto clone = [=, this](const FinishCall& finish) {
    // Reads the source job first. If the request names no tenant, the new job gets the tenant of the source job.
    const absl::StatusOr<JobPtr> source = options_.queries->GetJob(request->id());
    if (!source.ok()) {
      return finish(source.status());
    }
    const absl::StatusOr<Submitter> submitter =
        SubmitterFor(*context, request->tenant().empty() ? (*source)->tenant() : request->tenant(), finish.trace());
    submitter.ok() ? options_.commands->CloneJob(*request, AnswerJob(response, finish), *submitter)
                   : finish(submitter.status());
  };
  WorkPool* pool = PoolFor(request->id());
  if (pool == nullptr) {
    const absl::StatusOr<JobPtr> source = options_.queries->GetJob(request->id());
    pool = source.ok() ? PoolFor((*source)->spec().model()) : options_.environment->pool;
  }
  return ServeOn(pool, *options_.environment, context, "ampd.v1.JobService/CloneJob", *request, clone);
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(grpc::CallbackServerContext* context,
                                                                     const v1::WatchJobRequest* request) {
  using Reactor = StreamReactor<v1::WatchJobResponse, WatchSession>;
  constexpr std::string_view kMethod = "ampd.v1.JobService/WatchJob";
  auto reactor = std::make_shared<Reactor>(*options_.environment, context, kMethod);
  WatchSession::Options watch;
  watch.job = request->id();
  watch.resume_from = FromResumeToken(request->resume_token());
  watch.from_start = request->from_start();
  watch.get_job = ReaderFor(*context, kMethod, request->id());
  watch.add_progress = [this](v1::Job* job) { Complete(job); };
  watch.progress = [this, id = request->id()]() -> std::optional<v1::Progress> {
    const std::optional<ProgressBoard::Entry> entry = options_.progress->Find(id);
    return entry.has_value() ? std::optional(entry->progress) : std::nullopt;
  };
  watch.store = options_.store;
  watch.hub = options_.hub;
  watch.clock = options_.clock;
  watch.on_ready = Wake(reactor);
  absl::Status allowed = reactor->Admit();
  allowed.Update(CheckRequest(*request));
  if (allowed.ok() && !request->resume_token().empty() && !watch.resume_from.has_value()) {
    allowed = InvalidFields({{"resume_token", "is not one that a watch gave out"}});
  }
  if (allowed.ok()) {
    Reactor::Run(reactor, std::make_unique<WatchSession>(std::move(watch)), options_.ticker);
  } else {
    Reactor::Refuse(reactor, allowed);
  }
  return reactor.get();
}

grpc::ServerWriteReactor<v1::TailLogsResponse>* JobService::TailLogs(grpc::CallbackServerContext* context,
                                                                     const v1::TailLogsRequest* request) {
  using Reactor = StreamReactor<v1::TailLogsResponse, LogSession>;
  constexpr std::string_view kMethod = "ampd.v1.JobService/TailLogs";
  auto reactor = std::make_shared<Reactor>(*options_.environment, context, kMethod);
  LogSession::Options tail;
  tail.request = *request;
  tail.get_job = ReaderFor(*context, kMethod, request->id());
  tail.store = options_.store;
  tail.hub = options_.hub;
  tail.on_ready = Wake(reactor);
  absl::Status allowed = reactor->Admit();
  allowed.Update(CheckRequest(*request));
  if (!allowed.ok()) {
    Reactor::Refuse(reactor, allowed);
  } else {
    Reactor::Run(reactor, std::make_unique<LogSession>(std::move(tail)), options_.ticker);
  }
  return reactor.get();
}

grpc::ServerUnaryReactor* JobService::ListMetricPoints(grpc::CallbackServerContext* context,
                                                       const v1::ListMetricPointsRequest* request,
                                                       v1::ListMetricPointsResponse* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.JobService/ListMetricPoints", *request,
                       [=, this] { return ReadPoints(*request, response); });
}

absl::Status JobService::ReadPoints(const v1::ListMetricPointsRequest& request,
                                    v1::ListMetricPointsResponse* response) const {
  AMPD_ASSIGN_OR_RETURN(const int size, PageSize(request.page_size(), kDefaultPoints, kMaxPoints));
  AMPD_ASSIGN_OR_RETURN(const std::vector<uint64_t> token, PageToken(request.page_token(), 2));
  if (request.downsample_to() < 0 || request.downsample_to() > kMaxPoints) {
    return InvalidFields(
        {{"downsample_to", absl::StrCat("is ", request.downsample_to(), ", must be 0 to ", kMaxPoints)}});
  }
  AMPD_RETURN_IF_ERROR(options_.queries->GetJob(request.id()).status());
  AMPD_ASSIGN_OR_RETURN(PointPage page, options_.store->Read([&](MetricReader& reader) {
    return request.downsample_to() > 0
               ? reader.Downsample(request.id(), request.downsample_to(), request.include_superseded())
               : reader.ReadPoints(request.id(), static_cast<int32_t>(token[0]), token[1], size);
  }));
  HistoryCursor last;
  for (PointSegment& segment : page.segments) {
    last.attempt = segment.attempt;
    last.sequence = points::LastPoint(segment.batch);
    if (request.include_superseded() || !segment.superseded) {
      MoveSegment(std::move(segment), response);
    }
  }
  if (page.more) {
    response->set_next_page_token(absl::StrCat(last.attempt, ".", last.sequence));
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::ListEvents(grpc::CallbackServerContext* context,
                                                 const v1::ListEventsRequest* request,
                                                 v1::ListEventsResponse* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.JobService/ListEvents", *request,
                       [=, this] { return ReadEvents(*request, response); });
}

absl::Status JobService::ReadEvents(const v1::ListEventsRequest& request, v1::ListEventsResponse* response) const {
  AMPD_ASSIGN_OR_RETURN(const int size, PageSize(request.page_size(), kDefaultEvents, kMaxEvents));
  AMPD_ASSIGN_OR_RETURN(const std::vector<uint64_t> token, PageToken(request.page_token(), 1));
  AMPD_RETURN_IF_ERROR(options_.queries->GetJob(request.id()).status());
  AMPD_ASSIGN_OR_RETURN(EventPage page, options_.store->Read([&](MetricReader& reader) {
    return reader.ReadEvents(request.id(), token[0], size);
  }));
  if (request.page_token().empty()) {
    AMPD_ASSIGN_OR_RETURN(const int64_t total,
                          options_.store->Read([&](MetricReader& reader) { return reader.CountEvents(request.id()); }));
    response->set_total_size(total);
  }
  if (page.more) {
    response->set_next_page_token(absl::StrCat(page.events.back().sequence()));
  }
  for (v1::Event& event : page.events) {
    *response->add_events() = std::move(event);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::ExplainJob(grpc::CallbackServerContext* context,
                                                 const v1::ExplainJobRequest* request,
                                                 v1::ExplainJobResponse* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.JobService/ExplainJob", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(*response, options_.queries->ExplainJob(*request));
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* JobService::ListCheckpoints(grpc::CallbackServerContext* context,
                                                      const v1::ListCheckpointsRequest* request,
                                                      v1::ListCheckpointsResponse* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.JobService/ListCheckpoints", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(*response, options_.queries->ListCheckpoints(*request));
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* JobService::DeleteCheckpoint(grpc::CallbackServerContext* context,
                                                       const v1::DeleteCheckpointRequest* request,
                                                       google::protobuf::Empty*) {
  return ServeOn(PoolFor(request->id()), *options_.environment, context, "ampd.v1.JobService/DeleteCheckpoint",
                 *request,
                 [=, this](FinishCall finish) { options_.commands->DeleteCheckpoint(*request, std::move(finish)); });
}

}  // namespace ampd::server
