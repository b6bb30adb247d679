// Tests downloads of checkpoints, in which a worker sends a file and the server passes the file on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

// A job with a checkpoint at step 5, whose files are on worker w1.
class CheckpointDownload : public testing::Test {
 protected:
  CheckpointDownload() : worker_(std::make_unique<ScriptedWorker>(&server_, "w1", "agent-1")) {
    job_ = server_.CreateJob().id();
    const v1::AttemptKey key = worker_->Adopt(job_);
    path_ = worker_->SaveCheckpoint(key, 5);
    request_.set_id(job_);
    request_.set_attempt(key.attempt());
    request_.set_step(5);
    request_.set_file_name("model.safetensors");
  }

  struct Downloaded {
    std::string content;
    absl::Status status;
  };
  Downloaded Download(const v1::DownloadCheckpointFileRequest& request) {
    Downloaded downloaded;
    auto context = Context();
    auto reader = server_.jobs().DownloadCheckpointFile(context.get(), request);
    v1::DownloadCheckpointFileResponse piece;
    while (reader->Read(&piece)) {
      downloaded.content += piece.content();
    }
    downloaded.status = FromGrpcStatus(reader->Finish());
    return downloaded;
  }

  // Answers the server's next request for a file with these messages, and returns how the worker's call ended.
  // `transfer`: the name of the transfer to claim; empty: the right name.
  absl::Status Answer(std::vector<v1::FilePiece> pieces, const std::string& transfer = "") {
    asked_ = worker_->AwaitFileRequest();
    return SendFile(std::move(pieces), transfer.empty() ? asked_.transfer() : transfer);
  }
  absl::Status SendFile(std::vector<v1::FilePiece> pieces, const std::string& transfer) {
    auto context = Context();
    google::protobuf::Empty nothing;
    auto writer = server_.workers().SendFile(context.get(), &nothing);
    pieces.front().set_transfer(transfer);
    for (const v1::FilePiece& piece : pieces) {
      if (!writer->Write(piece)) {
        break;
      }
    }
    writer->WritesDone();
    return FromGrpcStatus(writer->Finish());
  }

  static v1::FilePiece Piece(const std::string& content, bool is_last = false) {
    v1::FilePiece piece;
    piece.set_content(content);
    piece.set_last(is_last);
    return piece;
  }

  TestServer server_;
  std::unique_ptr<ScriptedWorker> worker_;
  std::string job_;
  std::string path_;
  v1::DownloadCheckpointFileRequest request_;
  v1::FileRequest asked_;
};

TEST_F(CheckpointDownload, AFileOfTheWorker_ReachesTheClientPieceByPiece) {
  request_.set_offset_bytes(7);
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  const std::string large(900'000, 'x');
  EXPECT_EQ(Answer({Piece("begin"), Piece(large), Piece("end", /*is_last=*/true)}), absl::OkStatus());
  client.join();
  EXPECT_EQ(downloaded.status, absl::OkStatus());
  EXPECT_EQ(downloaded.content, absl::StrCat("begin", large, "end"));
  EXPECT_EQ(asked_.path(), path_);
  EXPECT_EQ(asked_.file_name(), "model.safetensors");
  EXPECT_EQ(asked_.offset_bytes(), 7);
}

TEST_F(CheckpointDownload, AnEmptyFile_IsAFile) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  EXPECT_EQ(Answer({Piece("", /*is_last=*/true)}), absl::OkStatus());
  client.join();
  EXPECT_EQ(downloaded.status, absl::OkStatus());
  EXPECT_EQ(downloaded.content, "");
}

TEST_F(CheckpointDownload, AFileThatTheWorkerCantRead_IsReportedWithTheReason) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  v1::FilePiece failure;
  failure.set_failure("open the file: No such file or directory");
  EXPECT_EQ(Answer({Piece("begin"), failure}), absl::OkStatus());
  client.join();
  EXPECT_EQ(ReasonOf(downloaded.status), "CHECKPOINT_UNREADABLE") << downloaded.status;
  EXPECT_THAT(std::string(downloaded.status.message()),
              HasSubstr("worker w1 cannot read the file: open the file: No such file or directory"));
}

TEST_F(CheckpointDownload, AWorkerThatStopsInTheMiddle_IsNoEndOfTheFile) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  EXPECT_FALSE(Answer({Piece("begin")}).ok());
  client.join();
  EXPECT_EQ(downloaded.content, "begin");
  EXPECT_EQ(downloaded.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(downloaded.status), "WORKER_UNREACHABLE") << downloaded.status;
}

TEST_F(CheckpointDownload, APieceThatIsTooLarge_IsRefused) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  EXPECT_EQ(Answer({Piece(std::string((1 << 20) + 1, 'x'))}).code(), absl::StatusCode::kInvalidArgument);
  // The refused call never began to send the file, so another call may still send it.
  EXPECT_EQ(SendFile({Piece("content", /*is_last=*/true)}, asked_.transfer()), absl::OkStatus());
  client.join();
  EXPECT_EQ(downloaded.content, "content");
}

TEST_F(CheckpointDownload, AnEmptyPiece_IsNoProgress) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  EXPECT_EQ(Answer({Piece("begin"), Piece("")}).code(), absl::StatusCode::kInvalidArgument);
  client.join();
  EXPECT_EQ(ReasonOf(downloaded.status), "WORKER_UNREACHABLE");
}

TEST_F(CheckpointDownload, AClientThatLeaves_EndsTheWorkersCall) {
  auto context = Context();
  auto reader = server_.jobs().DownloadCheckpointFile(context.get(), request_);
  const v1::FileRequest asked = worker_->AwaitFileRequest();
  auto sending = Context();
  google::protobuf::Empty nothing;
  auto writer = server_.workers().SendFile(sending.get(), &nothing);
  v1::FilePiece piece = Piece("begin");
  piece.set_transfer(asked.transfer());
  ASSERT_TRUE(writer->Write(piece));
  v1::DownloadCheckpointFileResponse taken;
  ASSERT_TRUE(reader->Read(&taken));
  context->TryCancel();
  while (writer->Write(Piece("more"))) {
  }
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(CheckpointDownload, ATransfer_BelongsToOneCall) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  EXPECT_EQ(Answer({Piece("forged", /*is_last=*/true)}, "guessed").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(SendFile({Piece("right", /*is_last=*/true)}, asked_.transfer()), absl::OkStatus());
  EXPECT_EQ(SendFile({Piece("again", /*is_last=*/true)}, asked_.transfer()).code(), absl::StatusCode::kCancelled);
  client.join();
  EXPECT_EQ(downloaded.content, "right");
}

TEST_F(CheckpointDownload, AWorkerThatIsGone_IsSaidToBeUnreachable) {
  worker_ = nullptr;
  server_.Restart();  // After the restart no worker has reported.
  const absl::Status status = Download(request_).status;
  EXPECT_EQ(ReasonOf(status), "WORKER_UNREACHABLE") << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker w1 saved it"));
}

TEST_F(CheckpointDownload, AWorkerThatDoesNotHaveTheFiles_IsNotAsked) {
  worker_ = nullptr;
  server_.Restart();
  ScriptedWorker other(&server_, "w2", "agent-2");
  other.Report();
  EXPECT_EQ(ReasonOf(Download(request_).status), "WORKER_UNREACHABLE");
}

TEST_F(CheckpointDownload, WrongRequests_AreRefused) {
  for (const std::string name : {"", ".", "..", "../state.json", "a/b", "/etc/passwd"}) {
    v1::DownloadCheckpointFileRequest request = request_;
    request.set_file_name(name);
    EXPECT_EQ(ReasonOf(Download(request).status), "INVALID_FIELDS") << name;
  }
  v1::DownloadCheckpointFileRequest request = request_;
  request.set_offset_bytes(-1);
  EXPECT_EQ(ReasonOf(Download(request).status), "INVALID_FIELDS");
  request = request_;
  request.set_step(6);
  EXPECT_EQ(ReasonOf(Download(request).status), "CHECKPOINT_NOT_FOUND");
  request.set_id("j-none");
  EXPECT_EQ(ReasonOf(Download(request).status), "JOB_NOT_FOUND");
}

TEST_F(CheckpointDownload, AShutdown_EndsBothCalls) {
  Downloaded downloaded;
  std::thread client([&] { downloaded = Download(request_); });
  const v1::FileRequest asked = worker_->AwaitFileRequest();
  auto context = Context();
  google::protobuf::Empty nothing;
  auto writer = server_.workers().SendFile(context.get(), &nothing);
  v1::FilePiece piece = Piece("begin");
  piece.set_transfer(asked.transfer());
  ASSERT_TRUE(writer->Write(piece));
  server_.Stop();
  EXPECT_FALSE(writer->Finish().ok());
  client.join();
  EXPECT_EQ(downloaded.status.code(), absl::StatusCode::kUnavailable) << downloaded.status;
}

}  // namespace
}  // namespace ampd::server
