// Tests tenants at a real server: what callers of one tenant can see and change of another tenant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/grpc/grpc_status.h"
#include "server/access/rules.h"
#include "tests/server/rpc/empty_call.h"
#include "tests/server/rpc/token_server.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr char kMarker[] = "marker-of-vision";

v1::CreateJobRequest RequestFor(const std::string& tenant, const std::string& name = "test") {
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec(name);
  request.set_tenant(tenant);
  return request;
}

// Uploads the content and returns the artifact.
absl::StatusOr<v1::Artifact> Upload(ServerAccess& as, const std::string& content, const std::string& tenant = "") {
  v1::UploadArtifactRequest request;
  request.set_sha256(Sha256Hex(content));
  request.set_size_bytes(static_cast<int64_t>(content.size()));
  request.set_content(content);
  request.set_tenant(tenant);
  v1::Artifact artifact;
  const auto context = Context();
  const auto stream = v1::ArtifactService::NewStub(as.NewChannel())->UploadArtifact(context.get(), &artifact);
  stream->Write(request);
  stream->WritesDone();
  const absl::Status status = FromGrpcStatus(stream->Finish());
  return status.ok() ? absl::StatusOr<v1::Artifact>(artifact) : status;
}

// A server on which the tenants vision and nlp have a submitter, an operator and a viewer each.
class TenantAccess : public testing::Test {
 protected:
  std::unique_ptr<ServerAccess> As(v1::Role role, const std::string& tenant, const std::string& worker = "") {
    const std::string name = absl::StrCat("t", ++num_tokens_);
    return server_.With(server_.Create(name, role, worker, absl::InfiniteDuration(), tenant));
  }

  static absl::StatusOr<v1::Job> Submit(ServerAccess& as, const v1::CreateJobRequest& request) {
    v1::Job job;
    const absl::Status status = FromGrpcStatus(as.jobs().CreateJob(Context().get(), request, &job));
    return status.ok() ? absl::StatusOr<v1::Job>(job) : status;
  }

  static std::vector<std::string> NamesOf(ServerAccess& as, const std::string& filter = "") {
    v1::ListJobsRequest request;
    request.set_filter(filter);
    v1::ListJobsResponse response;
    EXPECT_TRUE(as.jobs().ListJobs(Context().get(), request, &response).ok());
    std::vector<std::string> names;
    for (const v1::Job& job : response.jobs()) {
      names.push_back(job.spec().name());
    }
    EXPECT_EQ(response.total_size(), response.jobs_size());
    return names;
  }

  TokenServer server_;
  int num_tokens_ = 0;
  std::unique_ptr<ServerAccess> vision_ = As(v1::SUBMITTER, "vision"), nlp_ = As(v1::OPERATOR, "nlp");
};

TEST_F(TenantAccess, AJobBelongsToItsSubmittersTenant) {
  EXPECT_EQ(Submit(*vision_, RequestFor(""))->tenant(), "vision");
  EXPECT_EQ(Submit(*vision_, RequestFor("vision"))->tenant(), "vision");
  const absl::Status other = Submit(*vision_, RequestFor("nlp")).status();
  EXPECT_EQ(ReasonOf(other), "WRONG_TENANT");
  EXPECT_THAT(std::string(other.message()), HasSubstr("may submit for vision, not for the tenant nlp"));
  EXPECT_EQ(Submit(server_.admin(), RequestFor(""))->tenant(), "default");
  EXPECT_EQ(Submit(server_.admin(), RequestFor("anything"))->tenant(), "anything");
  EXPECT_EQ(ReasonOf(Submit(server_.admin(), RequestFor("Not a name")).status()), "INVALID_FIELDS");
  EXPECT_EQ(ReasonOf(Submit(*As(v1::VIEWER, "vision"), RequestFor("")).status()), "ROLE_TOO_LOW");
}

// Calls a method whose request names a job. In all these requests the job is field 1.
absl::Status CallById(ServerAccess& as, std::string_view method, const std::string& job) {
  v1::DownloadCheckpointFileRequest request;
  request.set_id(job);
  if (method == "ampd.v1.JobService/DownloadCheckpointFile") {
    request.set_file_name("state.json");
  }
  return CallWithBytes(as, method, request.SerializeAsString());
}

// Compares two answers of every method whose request names a job: for a job of another tenant, and for a job that does
// not exist. The answers must be equal except for the id.
TEST_F(TenantAccess, AJobOfAnotherTenantDoesNotExist) {
  const std::string job = Submit(*vision_, RequestFor("", kMarker))->id(), none = "j-aaaaaaaaaaaaaaaa";
  int num_methods = 0;
  for (const Rule& rule : AllRules()) {
    if (rule.job == Rule::Job::kNone) {
      continue;
    }
    ++num_methods;
    const absl::Status of_other = CallById(*nlp_, rule.method, job), of_none = CallById(*nlp_, rule.method, none);
    EXPECT_EQ(ReasonOf(of_other), "JOB_NOT_FOUND") << rule.method << ": " << of_other;
    EXPECT_EQ(absl::StrReplaceAll(of_other.ToString(), {{job, none}}), of_none.ToString()) << rule.method;
    const std::string own = Submit(*vision_, RequestFor(""))->id();
    EXPECT_NE(ReasonOf(CallById(*vision_, rule.method, own)), "JOB_NOT_FOUND") << rule.method;
  }
  EXPECT_GE(num_methods, 15);
  EXPECT_EQ(vision_->GetJob(job).state(), v1::Job::QUEUED) << "nobody changed it";
}

TEST_F(TenantAccess, ListsAndSearchesShowTheCallersTenantsOnly) {
  const std::string of_vision = Submit(*vision_, RequestFor("", kMarker))->id();
  for (int i = 0; i < 25; ++i) {  // More than a search returns; all have the same name.
    ASSERT_TRUE(Submit(*nlp_, RequestFor("", "same")).ok());
  }
  ASSERT_TRUE(Submit(*vision_, RequestFor("", "same")).ok());
  for (int i = 0; i < 25; ++i) {
    ASSERT_TRUE(Submit(*nlp_, RequestFor("", "same")).ok());
  }
  EXPECT_THAT(NamesOf(*vision_), ElementsAre("same", kMarker));
  EXPECT_THAT(NamesOf(*vision_, "tenant=nlp"), IsEmpty());
  EXPECT_THAT(NamesOf(*vision_, "tenant!=vision OR NOT name=same"), ElementsAre(kMarker));
  EXPECT_THAT(NamesOf(server_.admin(), "tenant=vision"), ElementsAre("same", kMarker));
  EXPECT_THAT(NamesOf(*As(v1::OPERATOR, "*"), "tenant=vision"), ElementsAre("same", kMarker));
  EXPECT_THAT(NamesOf(*As(v1::VIEWER, ""), ""), IsEmpty()) << "the default tenant has no job";
  const auto find = [](ServerAccess& as, const std::string& text) {
    v1::FindJobsRequest request;
    request.set_text(text);
    v1::FindJobsResponse response;
    EXPECT_TRUE(as.jobs().FindJobs(Context().get(), request, &response).ok());
    return response;
  };
  EXPECT_EQ(find(*vision_, "same").matches_size(), 1);
  EXPECT_FALSE(find(*vision_, "same").more());
  EXPECT_EQ(find(*nlp_, of_vision).matches_size(), 0);
  EXPECT_EQ(find(*nlp_, of_vision.substr(0, 8)).matches_size(), 0);
  EXPECT_EQ(find(*nlp_, kMarker).matches_size(), 0);
}

TEST_F(TenantAccess, TwoTenantsMayUseTheSameRequestId) {
  v1::CreateJobRequest request = RequestFor("", kMarker);
  request.set_request_id("r-1");
  const auto first = Submit(*vision_, request);
  const auto other = Submit(*nlp_, request);
  ASSERT_TRUE(first.ok() && other.ok()) << first.status() << other.status();
  EXPECT_NE(first->id(), other->id());
  EXPECT_EQ(Submit(*vision_, request)->id(), first->id());
  request.mutable_spec()->set_name("changed");
  EXPECT_THAT(Submit(*nlp_, request).status().ToString(), Not(HasSubstr(first->id())));
}

TEST_F(TenantAccess, AJobBeginsWithCheckpointsOfItsOwnTenantOnly) {
  const std::string source = Submit(*vision_, RequestFor("", kMarker))->id();
  const auto begin_with = [](const std::string& job) {
    v1::CreateJobRequest request = RequestFor("");
    request.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id(job);
    return request;
  };
  const absl::Status of_other = Submit(*nlp_, begin_with(source)).status();
  const absl::Status of_none = Submit(*nlp_, begin_with("j-aaaaaaaaaaaaaaaa")).status();
  EXPECT_EQ(ReasonOf(of_other), "JOB_NOT_FOUND");
  EXPECT_EQ(absl::StrReplaceAll(of_other.ToString(), {{source, "j-aaaaaaaaaaaaaaaa"}}), of_none.ToString());
  EXPECT_NE(ReasonOf(Submit(*vision_, begin_with(source)).status()), "JOB_NOT_FOUND");
  v1::CreateJobRequest across = begin_with(source);
  across.set_tenant("nlp");
  EXPECT_EQ(ReasonOf(Submit(server_.admin(), across).status()), "JOB_NOT_FOUND") << "not even an admin";
}

TEST_F(TenantAccess, ACloneBelongsToTheTenantOfItsSource) {
  const std::string source = Submit(*vision_, RequestFor("", kMarker))->id();
  v1::CloneJobRequest clone;
  clone.set_id(source);
  v1::Job job;
  ASSERT_TRUE(vision_->jobs().CloneJob(Context().get(), clone, &job).ok());
  EXPECT_EQ(job.tenant(), "vision");
  ASSERT_TRUE(server_.admin().jobs().CloneJob(Context().get(), clone, &job).ok());
  EXPECT_EQ(job.tenant(), "vision");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(nlp_->jobs().CloneJob(Context().get(), clone, &job))), "JOB_NOT_FOUND");
  clone.set_tenant("nlp");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(vision_->jobs().CloneJob(Context().get(), clone, &job))), "WRONG_TENANT");
  ASSERT_TRUE(server_.admin().jobs().CloneJob(Context().get(), clone, &job).ok());
  EXPECT_EQ(job.tenant(), "nlp");
}

TEST_F(TenantAccess, AnOperatorChangesTheJobsOfItsTenantOnly) {
  const std::string job = Submit(*vision_, RequestFor(""))->id();
  v1::CancelJobRequest cancel;
  cancel.set_id(job);
  v1::Job cancelled;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(nlp_->jobs().CancelJob(Context().get(), cancel, &cancelled))), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(As(v1::VIEWER, "vision")->jobs().CancelJob(Context().get(), cancel, &cancelled))),
            "ROLE_TOO_LOW");
  EXPECT_EQ(
      ReasonOf(FromGrpcStatus(As(v1::SUBMITTER, "vision")->jobs().CancelJob(Context().get(), cancel, &cancelled))),
      "NOT_YOUR_JOB");
  EXPECT_TRUE(As(v1::OPERATOR, "vision")->jobs().CancelJob(Context().get(), cancel, &cancelled).ok());
}

// Returns the workers that a caller sees, as "name: jobs on it".
std::vector<std::string> WorkersSeenBy(ServerAccess& as) {
  v1::ListWorkersResponse response;
  EXPECT_TRUE(as.admin().ListWorkers(Context().get(), {}, &response).ok());
  std::vector<std::string> shown;
  for (const v1::Worker& worker : response.workers()) {
    shown.push_back(absl::StrCat(worker.name(), ": ", worker.job_ids_size()));
  }
  EXPECT_EQ(response.total_size(), response.workers_size());
  return shown;
}

// Waits until the caller sees `count` workers. The server acknowledges a worker's first report before the registration
// is on disk, so a worker may appear a little later.
void AwaitWorkers(ServerAccess& as, size_t count) {
  for (const absl::Duration end = SystemClock().SinceBoot() + absl::Seconds(20);
       WorkersSeenBy(as).size() < count && SystemClock().SinceBoot() < end;) {
  }
}

TEST_F(TenantAccess, AWorkerRunsJobsOfItsTenants_AndOthersDoNotSeeIt) {
  const auto agent = As(v1::AGENT, "vision", "*"), anyone = As(v1::AGENT, "", "*");
  const std::string job = Submit(*nlp_, RequestFor("", "waits"))->id();
  ScriptedWorker limited(agent.get(), "limited");
  limited.Report();
  AwaitWorkers(*vision_, 1);
  EXPECT_EQ(nlp_->GetJob(job).state(), v1::Job::QUEUED);
  EXPECT_THAT(WorkersSeenBy(*nlp_), IsEmpty());
  EXPECT_THAT(WorkersSeenBy(*vision_), ElementsAre("limited: 0"));
  v1::ExplainJobRequest explain;
  explain.set_id(job);
  v1::ExplainJobResponse why;
  ASSERT_TRUE(nlp_->jobs().ExplainJob(Context().get(), explain, &why).ok());
  EXPECT_EQ(why.devices_size(), 0);
  EXPECT_EQ(why.message(), "no worker for the tenant nlp has ever reported a device");

  const std::string theirs = Submit(*vision_, RequestFor("", kMarker))->id();
  limited.Adopt(theirs);
  EXPECT_THAT(WorkersSeenBy(*vision_), ElementsAre("limited: 1"));
  ScriptedWorker shared(anyone.get(), "shared");
  shared.Adopt(job);
  EXPECT_THAT(WorkersSeenBy(*nlp_), ElementsAre("shared: 1"));
  EXPECT_THAT(WorkersSeenBy(*vision_), ElementsAre("limited: 1", "shared: 0"));
  EXPECT_THAT(WorkersSeenBy(server_.admin()), ElementsAre("limited: 1", "shared: 1"));

  const auto drain = [](ServerAccess& as, const std::string& name) {
    v1::DrainWorkerRequest request;
    request.set_name(name);
    v1::Worker worker;
    return ReasonOf(FromGrpcStatus(as.admin().DrainWorker(Context().get(), request, &worker)));
  };
  EXPECT_EQ(drain(*nlp_, "limited"), "WORKER_NOT_FOUND");
  EXPECT_EQ(drain(*nlp_, "shared"), "ROLE_TOO_LOW");
  EXPECT_EQ(drain(*As(v1::OPERATOR, "vision"), "limited"), "");
  EXPECT_EQ(drain(*As(v1::OPERATOR, ""), "shared"), "");
}

TEST_F(TenantAccess, WhoAmISaysInWhichTenantsTheRoleHolds) {
  v1::Caller caller;
  ASSERT_TRUE(v1::AuthService::Stub(nlp_->NewChannel()).WhoAmI(Context().get(), {}, &caller).ok());
  ASSERT_EQ(caller.memberships_size(), 1);
  EXPECT_EQ(caller.memberships(0).ShortDebugString(), "role: OPERATOR tenant: \"nlp\"");
  EXPECT_EQ(caller.token().tenant(), "nlp");
  ASSERT_TRUE(v1::AuthService::Stub(As(v1::OPERATOR, "")->NewChannel()).WhoAmI(Context().get(), {}, &caller).ok());
  EXPECT_EQ(caller.memberships(0).ShortDebugString(), "role: OPERATOR tenant: \"*\"");
}

std::vector<std::string> ArtifactsSeenBy(ServerAccess& as) {
  v1::ListArtifactsResponse response;
  EXPECT_TRUE(v1::ArtifactService::NewStub(as.NewChannel())->ListArtifacts(Context().get(), {}, &response).ok());
  std::vector<std::string> shown;
  for (const v1::Artifact& artifact : response.artifacts()) {
    shown.push_back(absl::StrCat(artifact.tenant(), " ", artifact.sha256().substr(0, 4)));
  }
  EXPECT_EQ(response.total_size(), response.artifacts_size());
  return shown;
}

absl::Status Download(ServerAccess& as, const std::string& name) {
  v1::DownloadArtifactRequest request;
  request.set_name(name);
  const auto context = Context();
  const auto stream = v1::ArtifactService::NewStub(as.NewChannel())->DownloadArtifact(context.get(), request);
  v1::DownloadArtifactResponse piece;
  while (stream->Read(&piece)) {
  }
  return FromGrpcStatus(stream->Finish());
}

TEST_F(TenantAccess, UploadsBelongToTheirTenant) {
  const auto uploaded = Upload(*vision_, kMarker);
  ASSERT_TRUE(uploaded.ok()) << uploaded.status();
  const std::string& name = uploaded->name();
  const std::string shown = name.substr(0, 4);
  EXPECT_THAT(ArtifactsSeenBy(*vision_), ElementsAre("vision " + shown));
  EXPECT_THAT(ArtifactsSeenBy(*nlp_), IsEmpty());
  EXPECT_EQ(ReasonOf(Download(*nlp_, name)), "ARTIFACT_NOT_FOUND");
  EXPECT_TRUE(Download(*vision_, name).ok());
  EXPECT_TRUE(Download(*As(v1::AGENT, "vision", "*"), name).ok());
  EXPECT_EQ(ReasonOf(Download(*As(v1::AGENT, "nlp", "*"), name)), "ARTIFACT_NOT_FOUND");
  EXPECT_TRUE(Download(*As(v1::AGENT, "", "*"), name).ok());
  v1::GetUploadRequest query;
  query.set_sha256(name);
  v1::Upload upload;
  ASSERT_TRUE(v1::ArtifactService::NewStub(nlp_->NewChannel())->GetUpload(Context().get(), query, &upload).ok());
  EXPECT_EQ(upload.received_bytes(), 0);
  EXPECT_FALSE(upload.has_artifact());
  v1::DeleteArtifactRequest remove;
  remove.set_name(name);
  google::protobuf::Empty nothing;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(
                v1::ArtifactService::NewStub(nlp_->NewChannel())->DeleteArtifact(Context().get(), remove, &nothing))),
            "ARTIFACT_NOT_FOUND");
  v1::CreateJobRequest request = RequestFor("");
  request.mutable_spec()->mutable_model()->mutable_exported()->set_artifact(name);
  EXPECT_EQ(ReasonOf(Submit(*nlp_, request).status()), "ARTIFACT_NOT_FOUND");
  EXPECT_NE(ReasonOf(Submit(*vision_, request).status()), "ARTIFACT_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Upload(*vision_, "other", "nlp").status()), "WRONG_TENANT");
  ASSERT_TRUE(Upload(*nlp_, kMarker).ok());
  EXPECT_THAT(ArtifactsSeenBy(server_.admin()), UnorderedElementsAre("nlp " + shown, "vision " + shown));
}

class TenantLimitsAccess : public testing::Test {
 protected:
  TokenServer server_{[](ServerConfig* config) {
    for (const char* const limit : {"vision:jobs=2", "vision:artifact-bytes=20", "*:streams=1", "nlp:requests=20"}) {
      EXPECT_TRUE(config->limits.AddForTenants(limit).ok()) << limit;
    }
  }};
  std::unique_ptr<ServerAccess> As(const std::string& tenant) {
    return server_.With(server_.Create(tenant, v1::OPERATOR, "", absl::InfiniteDuration(), tenant));
  }
};

absl::Status CreateIn(ServerAccess& as) {
  v1::Job job;
  return FromGrpcStatus(as.jobs().CreateJob(Context().get(), RequestFor(""), &job));
}

TEST_F(TenantLimitsAccess, ATenantWithItsFillOfJobsIsToldSo_AndOthersGoOn) {
  const auto vision = As("vision"), nlp = As("nlp");
  const std::string first = vision->CreateJob().id();
  EXPECT_TRUE(CreateIn(*vision).ok());
  const absl::Status refused = CreateIn(*vision);
  EXPECT_EQ(ReasonOf(refused), "TENANT_LIMIT");
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has 2 unfinished jobs; at most 2"));
  EXPECT_TRUE(CreateIn(*nlp).ok());
  v1::CancelJobRequest cancel;
  cancel.set_id(first);
  v1::Job job;
  ASSERT_TRUE(vision->jobs().CancelJob(Context().get(), cancel, &job).ok());
  EXPECT_TRUE(CreateIn(*vision).ok());
}

TEST_F(TenantLimitsAccess, ATenantWithItsFillOfArtifactsIsToldSo) {
  const auto vision = As("vision"), nlp = As("nlp");
  EXPECT_TRUE(Upload(*vision, std::string(15, 'a')).ok());
  const absl::Status refused = Upload(*vision, std::string(6, 'b')).status();
  EXPECT_EQ(ReasonOf(refused), "TENANT_LIMIT");
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  for (int i = 0; i < 100; ++i) {  // Repeats use no more space, and a finished upload is no open stream.
    ASSERT_TRUE(Upload(*vision, std::string(15, 'a')).ok()) << i;
  }
  EXPECT_TRUE(Upload(*vision, std::string(5, 'b')).ok());
  EXPECT_TRUE(Upload(*nlp, std::string(100, 'c')).ok());
}

TEST_F(TenantLimitsAccess, CallsAndStreamsBeyondTheLimitAreRefused) {
  const auto vision = As("vision"), nlp = As("nlp");
  const std::string job = vision->CreateJob().id();
  v1::WatchJobRequest watch;
  watch.set_id(job);
  const auto context = Context();
  auto open = vision->jobs().WatchJob(context.get(), watch);
  v1::WatchJobResponse snapshot;
  ASSERT_TRUE(open->Read(&snapshot));
  const auto second = Context();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(vision->jobs().WatchJob(second.get(), watch)->Finish())), "TOO_MANY_STREAMS");
  context->TryCancel();
  open->Finish();
  absl::Status again = absl::UnknownError("");
  for (int i = 0; i < 2000 && !again.ok(); ++i) {  // The server notices the cancellation a little later.
    const auto third = Context();
    auto reader = vision->jobs().WatchJob(third.get(), watch);
    again = reader->Read(&snapshot) ? absl::OkStatus() : FromGrpcStatus(reader->Finish());
    third->TryCancel();
  }
  EXPECT_TRUE(again.ok()) << again;

  int num_refused = 0;
  for (int i = 0; i < 60; ++i) {
    num_refused += ReasonOf(CallEmpty(*nlp, "ampd.v1.JobService/ListJobs")) == "RATE_LIMIT" ? 1 : 0;
  }
  EXPECT_GT(num_refused, 0);
}

}  // namespace
}  // namespace ampd::server
