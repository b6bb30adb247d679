// Tests the server's answers about uploaded models, through its gRPC services.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "tests/graph/exported/exported_net.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using graph::Net;
using nlohmann::json;
using testing::HasSubstr;

class UploadedModelRpcTest : public testing::Test {
 protected:
  // Uploads the model. Returns the name of the artifact.
  std::string Upload(const json& model) {
    const std::string path = folder_.Path("net.pt2");
    graph::WriteArchive(path, model);
    return UploadContent(ReadFile(path, 1 << 26).value());
  }
  std::string UploadContent(const std::string& content) {
    auto context = Context();
    v1::Artifact artifact;
    const auto stub = v1::ArtifactService::NewStub(server_.NewChannel());
    auto upload = stub->UploadArtifact(context.get(), &artifact);
    v1::UploadArtifactRequest request;
    request.set_file_name("net.pt2");
    request.set_sha256(Sha256Hex(content));
    request.set_size_bytes(static_cast<int64_t>(content.size()));
    upload->Write(request);
    for (size_t at = 0; at < content.size(); at += 1 << 20) {
      v1::UploadArtifactRequest piece;
      piece.set_content(content.substr(at, 1 << 20));
      upload->Write(piece);
    }
    upload->WritesDone();
    const grpc::Status status = upload->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return artifact.name();
  }
  absl::Status Delete(const std::string& artifact) {
    v1::DeleteArtifactRequest request;
    request.set_name(artifact);
    google::protobuf::Empty nothing;
    const auto stub = v1::ArtifactService::NewStub(server_.NewChannel());
    return FromGrpcStatus(stub->DeleteArtifact(Context().get(), request, &nothing));
  }

  static v1::JobSpec SpecOf(const std::string& artifact) {
    v1::JobSpec spec = GoodSpec();
    spec.mutable_model()->mutable_exported()->set_artifact(artifact);
    auto& shape = *spec.mutable_data()->mutable_train()->mutable_synthetic()->mutable_shape();
    const int extents[] = {3, 8, 8};
    shape.Assign(std::begin(extents), std::end(extents));
    return spec;
  }
  absl::StatusOr<v1::Job> Create(const v1::JobSpec& spec, bool validate_only = false) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_validate_only(validate_only);
    v1::Job job;
    const absl::Status status = FromGrpcStatus(server_.jobs().CreateJob(Context().get(), request, &job));
    return status.ok() ? absl::StatusOr<v1::Job>(job) : status;
  }
  absl::StatusOr<v1::EstimateJobResponse> Estimate(const v1::JobSpec& spec) {
    v1::EstimateJobRequest request;
    *request.mutable_spec() = spec;
    v1::EstimateJobResponse response;
    const absl::Status status = FromGrpcStatus(server_.jobs().EstimateJob(Context().get(), request, &response));
    return status.ok() ? absl::StatusOr<v1::EstimateJobResponse>(response) : status;
  }
  absl::StatusOr<v1::PolicyTable> Resolve(const v1::JobSpec& spec, const std::string& preset,
                                          int64_t sequence_length = 0) {
    v1::ResolvePolicyRequest request;
    *request.mutable_model() = spec.model();
    request.mutable_precision()->set_preset(preset);
    request.set_sequence_length(sequence_length);
    v1::PolicyTable table;
    const absl::Status status = FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table));
    return status.ok() ? absl::StatusOr<v1::PolicyTable>(table) : status;
  }

  TemporaryFolder folder_;
  TestServer server_;
};

TEST_F(UploadedModelRpcTest, ItsMemoryAndItsPolicyAreTold) {
  const v1::JobSpec spec = SpecOf(Upload(Net()));
  const auto estimate = Estimate(spec);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  ASSERT_EQ(estimate->candidates_size(), 2);
  EXPECT_GT(estimate->candidates(0).activation_bytes(), 0);
  const auto table = Resolve(spec, "fp8");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->text(), HasSubstr("body.1"));
  bool has_fp8 = false;
  for (const auto& op : table->ops()) {
    has_fp8 = has_fp8 || absl::StrContains(op.dtype(), "float8");
  }
  EXPECT_TRUE(has_fp8) << table->ShortDebugString();
  json eval_mode = Net();
  for (json& node : graph::GraphOf(eval_mode)["nodes"]) {
    for (json& input : node["inputs"]) {
      if (input["name"] == "training" || input["name"] == "train") {
        input["arg"]["as_bool"] = false;
      }
    }
  }
  const auto frozen = Resolve(SpecOf(Upload(eval_mode)), "fp32");
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  EXPECT_THAT(frozen->warnings(), testing::Contains(HasSubstr("exported in evaluation mode")));
}

TEST_F(UploadedModelRpcTest, WhatATrainerWouldRefuseIsRefusedAtSubmit) {
  json model = Net();
  graph::GraphOf(model)["nodes"][5]["target"] = "torch.ops.aten.sort.default";
  const v1::JobSpec spec = SpecOf(Upload(model));
  const absl::Status created = Create(spec).status();
  ASSERT_EQ(ViolationsOf(created).size(), 1u) << created;
  EXPECT_EQ(ViolationsOf(created)[0].field, "model.exported.artifact");
  EXPECT_EQ(ViolationsOf(created)[0].description,
            "aten.sort.default of body.0 (net.py:10) is not an op that models may use");
  EXPECT_EQ(Create(spec, /*validate_only=*/true).status(), created);
  EXPECT_EQ(Estimate(spec).status(), created);
  EXPECT_EQ(Resolve(spec, "bf16").status(), created);
  const std::string torn = UploadContent("This is no archive.");
  EXPECT_THAT(std::string(Create(SpecOf(torn)).status().message()),
              HasSubstr("model.exported.artifact: not a sound ZIP archive"));
}

TEST_F(UploadedModelRpcTest, AModelThatIsNotUploadedIsNotFound) {
  const v1::JobSpec spec = SpecOf(std::string(64, 'a'));
  EXPECT_EQ(ReasonOf(Create(spec).status()), "ARTIFACT_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Estimate(spec).status()), "ARTIFACT_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Resolve(spec, "bf16").status()), "ARTIFACT_NOT_FOUND");
  const std::string artifact = Upload(Net());
  EXPECT_TRUE(Estimate(SpecOf(artifact)).ok());
  ASSERT_EQ(Delete(artifact), absl::OkStatus());
  EXPECT_EQ(ReasonOf(Estimate(SpecOf(artifact)).status()), "ARTIFACT_NOT_FOUND") << "though it was read once";
}

TEST_F(UploadedModelRpcTest, ItsJobsAreToldWhatTheyWillNeedAlsoAfterARestart) {
  const v1::JobSpec spec = SpecOf(Upload(Net()));
  const auto job = Create(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  ScriptedWorker worker(&server_, "w1");
  worker.Adopt(job->id());
  const auto estimate = Estimate(spec);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  ASSERT_EQ(estimate->candidates(0).fits_size(), 1);
  EXPECT_GT(estimate->candidates(0).fits(0).largest_batch_size(), 32);
  EXPECT_EQ(server_.GetJob(job->id()).progress().memory_predicted_bytes(), estimate->candidates(0).total_bytes());
  worker.Close();
  server_.Restart();
  EXPECT_EQ(server_.GetJob(job->id()).progress().memory_predicted_bytes(), estimate->candidates(0).total_bytes());
}

TEST_F(UploadedModelRpcTest, ManyJobsOfOneModelAreTakenAtOnce) {
  const v1::JobSpec spec = SpecOf(Upload(Net()));
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        const auto job = Create(spec);
        EXPECT_TRUE(job.ok()) << job.status();
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  v1::ListJobsResponse jobs;
  v1::ListJobsRequest request;
  request.set_page_size(500);
  ASSERT_TRUE(server_.jobs().ListJobs(Context().get(), request, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 100);
}

TEST_F(UploadedModelRpcTest, TheLengthOfItsTextsIsTheRequests) {
  EXPECT_EQ(ViolationsOf(Resolve(SpecOf(Upload(Net())), "bf16", -1).status()).at(0).field, "sequence_length");
}

}  // namespace
}  // namespace ampd::server
