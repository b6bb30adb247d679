#include "client/api/job_client.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/api/tenants.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/grpc/channel.h"
#include "base/grpc/grpc_deadline.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "client/api/end_of_call.h"
#include "client/api/job_client_stubs.h"
#include "client/api/repeated_call.h"

namespace ampd::client {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kKeepaliveMillis = 60'000;
constexpr int kPageSize = 500;
constexpr int kPointsPageSize = 10'000;

// Discards gRPC's own log lines on stderr, because the command reports every error itself. To keep the lines, set the
// environment variable GRPC_VERBOSITY.
void DropLinesOfGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
  }
}

std::shared_ptr<grpc::Channel> MakeChannel(const ServerConnection& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  // When the server was unreachable, retry the connection within a second. gRPC's default delay grows to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name, this argument is the time limit for one attempt to connect, the handshake included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return OpenChannel(server, arguments);
}

template <typename Stub, typename Request, typename Response>
absl::Status CallInto(Stub& stub, Method<Stub, Request, Response> method, const Request& request,
                      absl::Duration deadline, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(deadline));
  return EndOfCall((stub.*method)(&context, request, response));
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, Method<Stub, Request, Response> method, const Request& request,
                              absl::Duration deadline) {
  Response response;
  AMPD_RETURN_IF_ERROR(CallInto(stub, method, request, deadline, &response));
  return response;
}

// Sets the request's tenant to `tenant`, unless the request already names one or `tenant` stands for all tenants.
template <typename Request>
Request ForTenant(Request request, const std::string& tenant) {
  if (request.tenant().empty() && tenant != kAllTenants) {
    request.set_tenant(tenant);
  }
  return request;
}

// Returns `filter`, restricted to the jobs of the tenant.
std::string WithTenant(const std::string& filter, const std::string& tenant) {
  if (tenant.empty() || tenant == kAllTenants) {
    return filter;
  }
  return absl::StrCat("tenant=", tenant, filter.empty() ? "" : absl::StrCat(" AND (", filter, ")"));
}

template <typename Request>
Request ById(const std::string& id) {
  Request request;
  request.set_id(id);
  return request;
}

}  // namespace

JobClient::JobClient(const Options& options) : options_(options), stubs_(std::make_unique<JobClientStubs>()) {
  DropLinesOfGrpc();
  stubs_->channel = MakeChannel(options_.server);
  stubs_->jobs = v1::JobService::NewStub(stubs_->channel);
  stubs_->workers = v1::WorkerAdminService::NewStub(stubs_->channel);
  stubs_->artifacts = v1::ArtifactService::NewStub(stubs_->channel);
}

JobClient::~JobClient() = default;

absl::StatusOr<v1::Job> JobClient::CreateJob(const v1::CreateJobRequest& request, const Retry& retry) {
  if (options_.tenant == kAllTenants && request.tenant().empty()) {
    return absl::InvalidArgumentError("the tenant '*' stands for all tenants; a job belongs to one: --tenant NAME");
  }
  return CallRepeatedly(*stubs_->jobs, &v1::JobService::StubInterface::CreateJob, ForTenant(request, options_.tenant),
                        options_.call_deadline, retry);
}

absl::StatusOr<v1::Job> JobClient::CloneJob(const v1::CloneJobRequest& request, const Retry& retry) {
  return CallRepeatedly(*stubs_->jobs, &v1::JobService::StubInterface::CloneJob, ForTenant(request, options_.tenant),
                        options_.call_deadline, retry);
}

absl::StatusOr<v1::Job> JobClient::GetJob(const std::string& id) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::GetJob, ById<v1::GetJobRequest>(id), options_.call_deadline);
}

absl::Status JobClient::ForEachJobPage(const std::string& filter, int limit, const std::string& page_token,
                                       const std::function<void(const v1::ListJobsResponse&)>& on_page) {
  v1::ListJobsRequest request;
  request.set_filter(WithTenant(filter, options_.tenant));
  request.set_page_token(page_token);
  int num_jobs = 0;
  do {
    request.set_page_size(limit == 0 ? kPageSize : std::min(kPageSize, limit - num_jobs));
    AMPD_ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                          Call(*stubs_->jobs, &v1::JobService::Stub::ListJobs, request, options_.call_deadline));
    num_jobs += page.jobs_size();
    request.set_page_token(page.next_page_token());
    on_page(page);
  } while (!request.page_token().empty() && (limit == 0 || num_jobs < limit));
  return absl::OkStatus();
}

absl::StatusOr<JobClient::JobList> JobClient::ListJobs(const std::string& filter, int limit,
                                                       const std::string& page_token) {
  JobList list;
  AMPD_RETURN_IF_ERROR(ForEachJobPage(filter, limit, page_token, [&list](const v1::ListJobsResponse& page) {
    list.jobs.insert(list.jobs.end(), page.jobs().begin(), page.jobs().end());
    list.total_size = std::max(list.total_size, page.total_size());
    list.next_page_token = page.next_page_token();
  }));
  return list;
}

absl::StatusOr<v1::FindJobsResponse> JobClient::FindJobs(const std::string& text) {
  if (!options_.tenant.empty() && options_.tenant != kAllTenants) {
    return FindJobsOfTenant(text);
  }
  v1::FindJobsRequest request;
  request.set_text(text);
  return Call(*stubs_->jobs, &v1::JobService::Stub::FindJobs, request, options_.call_deadline);
}

absl::StatusOr<v1::FindJobsResponse> JobClient::FindJobsOfTenant(const std::string& text) {
  constexpr int kMostMatches = 20;       // The server's FindJobs has the same limit.
  constexpr size_t kMinPrefixBytes = 5;  // The same limit as in server/coordinator/job_find.cc.
  v1::FindJobsResponse response;
  const bool may_be_name = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
  if (!may_be_name) {
    return response;  // No name has other characters, and in a filter they may be operators.
  }
  const bool may_be_prefix = text.starts_with("j-") && text.size() >= kMinPrefixBytes;
  const std::string filter = absl::StrCat("name=", text, may_be_prefix ? absl::StrCat(" OR id=", text, "*") : "");
  AMPD_ASSIGN_OR_RETURN(const JobList list, ListJobs(filter, kMostMatches + 1));
  for (const v1::Job& job : list.jobs) {
    if (response.matches_size() == kMostMatches) {
      response.set_more(true);
      break;
    }
    v1::FindJobsResponse::Match& match = *response.add_matches();
    match.set_id(job.id());
    match.set_name(job.spec().name());
    match.set_state(job.state());
    *match.mutable_create_time() = job.create_time();
  }
  return response;
}

absl::StatusOr<v1::Job> JobClient::CancelJob(const std::string& id) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::CancelJob, ById<v1::CancelJobRequest>(id), options_.call_deadline);
}

absl::StatusOr<v1::Job> JobClient::PauseJob(const std::string& id) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::PauseJob, ById<v1::PauseJobRequest>(id), options_.call_deadline);
}

absl::StatusOr<v1::Job> JobClient::ResumeJob(const std::string& id) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::ResumeJob, ById<v1::ResumeJobRequest>(id), options_.call_deadline);
}

absl::Status JobClient::DeleteJob(const std::string& id) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::DeleteJob, ById<v1::DeleteJobRequest>(id), options_.call_deadline)
      .status();
}

absl::StatusOr<v1::Job> JobClient::UpdateJob(const v1::UpdateJobRequest& request) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::UpdateJob, request, options_.call_deadline);
}

absl::StatusOr<v1::ExplainJobResponse> JobClient::ExplainJob(const std::string& id) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::ExplainJob, ById<v1::ExplainJobRequest>(id),
              options_.call_deadline);
}

absl::StatusOr<v1::PolicyTable> JobClient::ResolvePolicy(const v1::ResolvePolicyRequest& request) {
  return Call(*stubs_->jobs, &v1::JobService::Stub::ResolvePolicy, ForTenant(request, options_.tenant),
              options_.call_deadline);
}

absl::StatusOr<v1::EstimateJobResponse> JobClient::EstimateJob(const v1::JobSpec& spec) {
  v1::EstimateJobRequest request;
  *request.mutable_spec() = spec;
  return Call(*stubs_->jobs, &v1::JobService::Stub::EstimateJob, ForTenant(request, options_.tenant),
              options_.call_deadline);
}

absl::StatusOr<v1::ListMetricPointsResponse> JobClient::ListMetricPoints(const std::string& id, int downsample_to) {
  auto request = ById<v1::ListMetricPointsRequest>(id);
  request.set_page_size(kPointsPageSize);
  request.set_downsample_to(downsample_to);
  v1::ListMetricPointsResponse all;
  do {
    AMPD_ASSIGN_OR_RETURN(
        v1::ListMetricPointsResponse page,
        Call(*stubs_->jobs, &v1::JobService::Stub::ListMetricPoints, request, options_.call_deadline));
    request.set_page_token(page.next_page_token());
    page.clear_next_page_token();
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::ListEventsResponse> JobClient::ListEvents(const std::string& id) {
  auto request = ById<v1::ListEventsRequest>(id);
  request.set_page_size(kPageSize);
  v1::ListEventsResponse all;
  do {
    AMPD_ASSIGN_OR_RETURN(v1::ListEventsResponse page,
                          Call(*stubs_->jobs, &v1::JobService::Stub::ListEvents, request, options_.call_deadline));
    request.set_page_token(page.next_page_token());
    page.clear_next_page_token();
    all.MergeFrom(page);
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<std::vector<v1::Checkpoint>> JobClient::ListCheckpoints(const std::string& id) {
  AMPD_ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse response,
                        Call(*stubs_->jobs, &v1::JobService::Stub::ListCheckpoints,
                             ById<v1::ListCheckpointsRequest>(id), options_.call_deadline));
  return std::vector<v1::Checkpoint>(response.checkpoints().begin(), response.checkpoints().end());
}

absl::Status JobClient::DeleteCheckpoint(const std::string& id, int attempt, int64_t step) {
  auto request = ById<v1::DeleteCheckpointRequest>(id);
  request.set_attempt(attempt);
  request.set_step(step);
  return Call(*stubs_->jobs, &v1::JobService::Stub::DeleteCheckpoint, request, options_.call_deadline).status();
}

absl::StatusOr<std::vector<v1::Artifact>> JobClient::ListArtifacts(const std::string& job) {
  std::vector<v1::Artifact> artifacts;
  v1::ListArtifactsRequest request;
  request.set_page_size(kPageSize);
  request.set_job_id(job);
  request = ForTenant(std::move(request), options_.tenant);
  do {
    AMPD_ASSIGN_OR_RETURN(
        v1::ListArtifactsResponse page,
        Call(*stubs_->artifacts, &v1::ArtifactService::Stub::ListArtifacts, request, options_.call_deadline));
    std::move(page.mutable_artifacts()->begin(), page.mutable_artifacts()->end(), std::back_inserter(artifacts));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return artifacts;
}

absl::Status JobClient::DeleteArtifact(const std::string& name) {
  v1::DeleteArtifactRequest request;
  request.set_name(name);
  return Call(*stubs_->artifacts, &v1::ArtifactService::Stub::DeleteArtifact, ForTenant(request, options_.tenant),
              options_.call_deadline)
      .status();
}

absl::StatusOr<std::vector<v1::Worker>> JobClient::ListWorkers() {
  std::vector<v1::Worker> workers;
  v1::ListWorkersRequest request;
  request.set_page_size(kPageSize);
  do {
    AMPD_ASSIGN_OR_RETURN(
        v1::ListWorkersResponse page,
        Call(*stubs_->workers, &v1::WorkerAdminService::Stub::ListWorkers, request, options_.call_deadline));
    std::move(page.mutable_workers()->begin(), page.mutable_workers()->end(), std::back_inserter(workers));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return workers;
}

absl::Status JobClient::RemoveWorker(const std::string& name) {
  v1::RemoveWorkerRequest request;
  request.set_name(name);
  return Call(*stubs_->workers, &v1::WorkerAdminService::Stub::RemoveWorker, request, options_.call_deadline).status();
}

absl::StatusOr<v1::Worker> JobClient::DrainWorker(const std::string& name) {
  v1::DrainWorkerRequest request;
  request.set_name(name);
  return Call(*stubs_->workers, &v1::WorkerAdminService::Stub::DrainWorker, request, options_.call_deadline);
}

absl::StatusOr<v1::Worker> JobClient::UndrainWorker(const std::string& name) {
  v1::UndrainWorkerRequest request;
  request.set_name(name);
  return Call(*stubs_->workers, &v1::WorkerAdminService::Stub::UndrainWorker, request, options_.call_deadline);
}

absl::StatusOr<v1::ServerInfo> JobClient::GetServerInfo() {
  return Call(*stubs_->jobs, &v1::JobService::Stub::GetServerInfo, v1::GetServerInfoRequest(), options_.call_deadline);
}

absl::StatusOr<bool> JobClient::IsServing(const std::string& service) {
  // Calls the standard service grpc.health.v1 without its proto. The message types below have the same wire format: the
  // request is one string and the response one enum, both field 1.
  google::protobuf::StringValue request;
  google::protobuf::Int32Value response;
  request.set_value(service);
  grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value> stub(stubs_->channel);
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(options_.call_deadline));
  absl::Notification done;
  grpc::Status status;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  AMPD_RETURN_IF_ERROR(EndOfCall(status));
  constexpr int kServing = 1;
  return response.value() == kServing;
}

std::string NewRequestId() {
  const uint64_t high = (SystemRandom().Next() & ~0xF000ULL) | 0x4000ULL;
  const uint64_t low = (SystemRandom().Next() & ~(3ULL << 62)) | (2ULL << 62);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFFF, low >> 48,
                         low & 0xFFFFFFFFFFFFULL);
}

}  // namespace ampd::client
