#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::UploadArtifactRequest First(const std::string& content, size_t offset = 0) {
  v1::UploadArtifactRequest request;
  request.set_file_name("model.pt2");
  request.set_sha256(Sha256Hex(content));
  request.set_size_bytes(static_cast<int64_t>(content.size()));
  request.set_offset_bytes(static_cast<int64_t>(offset));
  return request;
}

class ArtifactRpcTest : public testing::Test {
 protected:
  ArtifactRpcTest() { Connect(); }
  void Connect() { stub_ = v1::ArtifactService::NewStub(server_.NewChannel()); }

  // Sends these messages in one upload call, and returns the result of the call.
  absl::StatusOr<v1::Artifact> Send(const std::vector<v1::UploadArtifactRequest>& messages) {
    auto context = Context();
    v1::Artifact artifact;
    auto upload = stub_->UploadArtifact(context.get(), &artifact);
    for (const v1::UploadArtifactRequest& message : messages) {
      if (!upload->Write(message)) {
        break;
      }
    }
    upload->WritesDone();
    const absl::Status status = FromGrpcStatus(upload->Finish());
    return status.ok() ? absl::StatusOr<v1::Artifact>(artifact) : status;
  }
  // Uploads the content from `offset` on, in pieces of `piece` bytes.
  absl::StatusOr<v1::Artifact> Upload(const std::string& content, size_t offset = 0, size_t piece = 1000) {
    std::vector<v1::UploadArtifactRequest> messages = {First(content, offset)};
    for (; offset < content.size(); offset += piece) {
      messages.emplace_back().set_content(content.substr(offset, piece));
    }
    return Send(messages);
  }
  v1::Upload GetUpload(const std::string& content) {
    v1::GetUploadRequest request;
    request.set_sha256(Sha256Hex(content));
    v1::Upload upload;
    EXPECT_TRUE(stub_->GetUpload(Context().get(), request, &upload).ok());
    return upload;
  }
  absl::StatusOr<std::string> Download(const std::string& name, int64_t offset = 0) {
    auto context = Context();
    v1::DownloadArtifactRequest request;
    request.set_name(name);
    request.set_offset_bytes(offset);
    auto download = stub_->DownloadArtifact(context.get(), request);
    std::string content;
    v1::DownloadArtifactResponse piece;
    while (download->Read(&piece)) {
      content += piece.content();
    }
    const absl::Status status = FromGrpcStatus(download->Finish());
    return status.ok() ? absl::StatusOr<std::string>(content) : status;
  }
  absl::StatusOr<std::vector<std::string>> List(const v1::ListArtifactsRequest& request) {
    v1::ListArtifactsResponse listed;
    const absl::Status status = FromGrpcStatus(stub_->ListArtifacts(Context().get(), request, &listed));
    std::vector<std::string> names;
    for (const v1::Artifact& artifact : listed.artifacts()) {
      names.push_back(artifact.name());
    }
    return status.ok() ? absl::StatusOr<std::vector<std::string>>(names) : status;
  }
  absl::Status Delete(const std::string& name) {
    v1::DeleteArtifactRequest request;
    request.set_name(name);
    google::protobuf::Empty nothing;
    return FromGrpcStatus(stub_->DeleteArtifact(Context().get(), request, &nothing));
  }

  TestServer server_;
  std::unique_ptr<v1::ArtifactService::Stub> stub_;
};

TEST_F(ArtifactRpcTest, WhatIsUploadedIsListedDownloadedAndDeleted) {
  std::string content;
  for (int i = 0; content.size() < 3'000'000; ++i) {
    absl::StrAppend(&content, i, " ");
  }
  const auto artifact = Upload(content, 0, 1 << 20);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->name(), Sha256Hex(content));
  server_.Restart();
  Connect();
  EXPECT_TRUE(GetUpload(content).has_artifact());
  EXPECT_THAT(*List({}), ElementsAre(Sha256Hex(content)));
  EXPECT_EQ(*Download(artifact->name()), content);
  EXPECT_EQ(*Download(artifact->name(), 2'000'000), content.substr(2'000'000));
  EXPECT_EQ(Delete(artifact->name()), absl::OkStatus());
  EXPECT_EQ(ReasonOf(Delete(artifact->name())), "ARTIFACT_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Download(artifact->name()).status()), "ARTIFACT_NOT_FOUND");
}

TEST_F(ArtifactRpcTest, AnUploadThatBrokeOffIsGoneOnWith) {
  const std::string content(10'000, 'x');
  {
    auto context = Context();
    v1::Artifact artifact;
    auto upload = stub_->UploadArtifact(context.get(), &artifact);
    v1::UploadArtifactRequest first = First(content);
    first.set_content(content.substr(0, 4000));
    ASSERT_TRUE(upload->Write(first));
    while (GetUpload(content).received_bytes() < 4000) {
    }
    context->TryCancel();
    EXPECT_FALSE(upload->Finish().ok());
  }
  EXPECT_EQ(ReasonOf(Upload(content, 3000).status()), "OFFSET_MISMATCH");
  const auto artifact = Upload(content, 4000);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(*Download(artifact->name()), content);
  // The server already has the content. It answers at once, without receiving the content again.
  EXPECT_EQ(Send({First(content)})->name(), artifact->name());
}

TEST_F(ArtifactRpcTest, EachMistakeIsOneClearError) {
  v1::UploadArtifactRequest big = First("content");
  big.set_content(std::string((1 << 20) + 1, 'x'));
  big.set_size_bytes(2 << 20);
  EXPECT_EQ(ViolationsOf(Send({big}).status()).at(0).field, "content");
  EXPECT_EQ(ViolationsOf(Send({}).status()).at(0).field, "sha256");
  EXPECT_EQ(ViolationsOf(Send({v1::UploadArtifactRequest()}).status()).at(0).field, "sha256");
  EXPECT_EQ(ViolationsOf(Send({First("content"), First("content")}).status()).size(), 3u);
  EXPECT_EQ(ReasonOf(Send({First("content")}).status()), "INCOMPLETE_UPLOAD");
  EXPECT_EQ(ViolationsOf(Delete("")).at(0).field, "name");
  EXPECT_EQ(ViolationsOf(Download("").status()).at(0).field, "name");
  v1::ListArtifactsRequest request;
  request.set_page_size(-1);
  EXPECT_EQ(ViolationsOf(List(request).status()).at(0).field, "page_size");
  v1::GetUploadRequest digest;
  digest.set_sha256("abc");
  v1::Upload upload;
  const absl::Status status = FromGrpcStatus(stub_->GetUpload(Context().get(), digest, &upload));
  EXPECT_THAT(status.message(), HasSubstr("64 hexadecimal digits"));
}

TEST_F(ArtifactRpcTest, AnIdleUploadDoesNotHoldUpTheEndOfTheServer) {
  auto context = Context();
  v1::Artifact artifact;
  auto upload = stub_->UploadArtifact(context.get(), &artifact);
  v1::UploadArtifactRequest first = First("content");
  first.set_content("con");
  ASSERT_TRUE(upload->Write(first));
  while (GetUpload("content").received_bytes() < 3) {
  }
  // Measures the time until the upload ends. The time until the whole server has stopped would not do, because that
  // takes up to two seconds for other reasons.
  const absl::Time begin = absl::Now();
  std::thread stopping([this] { server_.Stop(); });
  const absl::Status ended = FromGrpcStatus(upload->Finish());
  EXPECT_LT(absl::Now() - begin, kDrainGrace / 2);
  EXPECT_EQ(ReasonOf(ended), "SHUTTING_DOWN") << ended;
  stopping.join();
}

// To finish an upload, the server reads the file back. Here the files are pipes, so the reading blocks until the test
// writes into them.
TEST_F(ArtifactRpcTest, UploadsThatAreReadBackHoldUpNobodyElse) {
  constexpr int kNumUploads = 8;  // More uploads than any pool has threads.
  struct Waiting {
    std::string content;
    std::string path;
    std::unique_ptr<grpc::ClientContext> context = Context();
    v1::Artifact artifact;
    std::unique_ptr<grpc::ClientWriter<v1::UploadArtifactRequest>> call;
  };
  std::vector<Waiting> uploads(kNumUploads);
  for (int i = 0; i < kNumUploads; ++i) {
    Waiting& upload = uploads[static_cast<size_t>(i)];
    upload.content = absl::StrCat("content ", i);
    upload.path = absl::StrCat(server_.data_dir(), "/artifacts/", Sha256Hex(upload.content), ".partial");
    upload.call = stub_->UploadArtifact(upload.context.get(), &upload.artifact);
    v1::UploadArtifactRequest first = First(upload.content);
    first.set_content(upload.content);
    ASSERT_TRUE(upload.call->Write(first));
    while (GetUpload(upload.content).received_bytes() < first.size_bytes()) {
    }
    ASSERT_EQ(unlink(upload.path.c_str()), 0);
    ASSERT_EQ(mkfifo(upload.path.c_str(), 0600), 0);
  }
  absl::BlockingCounter two_are_read(2);
  absl::Notification go_on;
  std::atomic<int> num_read = 0;
  std::vector<std::thread> threads;
  for (Waiting& upload : uploads) {
    ASSERT_TRUE(upload.call->WritesDone());
    threads.emplace_back([&] {
      const UniqueFd pipe(open(upload.path.c_str(), O_WRONLY | O_CLOEXEC));
      if (num_read++ < 2) {
        two_are_read.DecrementCount();
      }
      go_on.WaitForNotification();
      EXPECT_TRUE(WriteAll(pipe.get(), upload.content).ok());
    });
  }
  two_are_read.Wait();
  for (int i = 0; i < 100; ++i) {
    GetUpload("another");
  }
  go_on.Notify();
  for (Waiting& upload : uploads) {
    EXPECT_TRUE(upload.call->Finish().ok());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(ArtifactRpcTest, SamplesOfTelemetryAreArtifactsOfTheJobOnceTheyAreAcknowledged) {
  ScriptedWorker worker(&server_, "w1");
  const v1::Job job = server_.CreateJob();
  const v1::AttemptKey key = worker.Adopt(job.id());
  v1::TelemetryBatch batch = Steps(1, 2);
  v1::Sample* sample = batch.add_samples();
  sample->set_attempt_sequence(3);
  sample->set_step(2);
  sample->set_file_name("text.txt");
  sample->set_media_type("text/plain");
  sample->set_content("In the beginning");
  EXPECT_EQ(worker.Upload(key, batch).stored_sequence(), 3u);
  EXPECT_EQ(worker.Upload(key, batch).stored_sequence(), 3u) << "sent again";
  v1::ListArtifactsRequest request;
  request.set_job_id(job.id());
  const std::string name = job.id() + "/step-2/text.txt";
  EXPECT_THAT(*List(request), ElementsAre(name));
  EXPECT_EQ(*Download(name), "In the beginning");
  sample->set_file_name("NOT A NAME");
  sample->set_attempt_sequence(4);
  batch.clear_steps();
  EXPECT_EQ(worker.Upload(key, batch).stored_sequence(), 4u);
  v1::ListEventsRequest about;
  about.set_id(job.id());
  v1::ListEventsResponse events;
  ASSERT_TRUE(server_.jobs().ListEvents(Context().get(), about, &events).ok());
  EXPECT_EQ(events.events().rbegin()->kind(), v1::Event::TELEMETRY_REFUSED);

  worker.Finish(key, 4);
  v1::DeleteJobRequest deletion;
  deletion.set_id(job.id());
  google::protobuf::Empty nothing;
  ASSERT_TRUE(server_.jobs().DeleteJob(Context().get(), deletion, &nothing).ok());
  server_.Restart();
  Connect();
  EXPECT_THAT(*List(request), ElementsAre());
}

}  // namespace
}  // namespace ampd::server
