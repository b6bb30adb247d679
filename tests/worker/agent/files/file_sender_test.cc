#include "worker/agent/files/file_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/io/file.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct ReadAll {
  std::string content;
  std::string failure;
  std::string transfer;
  int num_pieces = 0;
};

ReadAll Collect(const FileUplink::NextPiece& next) {
  ReadAll all;
  v1::FilePiece piece;
  do {
    piece = next();
    all.content += piece.content();
    all.failure = piece.failure();
    all.transfer += piece.transfer();
    ++all.num_pieces;
  } while (!piece.last() && piece.failure().empty());
  return all;
}

v1::FileRequest RequestOf(const std::string& file_name, int64_t offset = 0, const std::string& path = "j-1/1/step-5") {
  v1::FileRequest request;
  request.set_transfer("t-1");
  request.set_path(path);
  request.set_file_name(file_name);
  request.set_offset_bytes(offset);
  return request;
}

class PiecesTest : public testing::Test {
 protected:
  PiecesTest() {
    std::string name = testing::TempDir() + "/ampd-sender-XXXXXX";
    root_ = mkdtemp(name.data());
    fs::create_directories(root_ + "/j-1/1/step-5");
    Write("model.safetensors", std::string(600'000, 'm') + "end");
    Write("empty", "");
    Write("../../../secret", "not of a checkpoint");
  }
  ~PiecesTest() override { fs::remove_all(root_); }
  void Write(const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(absl::StrCat(root_, "/j-1/1/step-5/", name), content).ok());
  }
  ReadAll Read(const v1::FileRequest& request) { return Collect(PiecesOf(root_, request)); }

  std::string root_;
};

TEST_F(PiecesTest, AFile_IsReadFromItsOffsetToItsEnd) {
  const ReadAll whole = Read(RequestOf("model.safetensors"));
  EXPECT_EQ(whole.content, std::string(600'000, 'm') + "end");
  EXPECT_EQ(whole.transfer, "t-1");  // Only the first piece names the transfer.
  EXPECT_GT(whole.num_pieces, 2);
  EXPECT_EQ(Read(RequestOf("model.safetensors", 600'001)).content, "nd");
  EXPECT_EQ(Read(RequestOf("model.safetensors", 600'003)).content, "");
  EXPECT_EQ(Read(RequestOf("empty")).failure, "");
}

TEST_F(PiecesTest, WhatIsNotAFileOfACheckpoint_IsNotRead) {
  fs::create_symlink(root_ + "/secret", root_ + "/j-1/1/step-5/link");
  fs::create_directory_symlink(root_, root_ + "/j-1/1/step-6");
  fs::create_directory(root_ + "/j-1/1/step-5/folder");
  ASSERT_EQ(mkfifo((root_ + "/j-1/1/step-5/fifo").c_str(), 0600), 0);
  EXPECT_THAT(Read(RequestOf("link")).failure, HasSubstr("open the file"));
  EXPECT_THAT(Read(RequestOf("secret", 0, "j-1/1/step-6")).failure, HasSubstr("open the checkpoint's folder"));
  EXPECT_EQ(Read(RequestOf("folder")).failure, "it is not a regular file");
  EXPECT_EQ(Read(RequestOf("fifo")).failure, "it is not a regular file");
  for (const std::string name : {"", ".", "..", "../secret", "../../../secret", "/etc/passwd"}) {
    EXPECT_EQ(Read(RequestOf(name)).failure, "it is not the name of a file of a checkpoint") << name;
  }
  for (const std::string path : {"", "..", "j-1/..", "/etc", "j-1//1"}) {
    EXPECT_EQ(Read(RequestOf("passwd", 0, path)).failure, "it is not the name of a file of a checkpoint") << path;
  }
}

TEST_F(PiecesTest, AMissingFileOrOffset_IsAFailure) {
  EXPECT_THAT(Read(RequestOf("none")).failure, HasSubstr("open the file"));
  EXPECT_THAT(Read(RequestOf("state.json", 0, "j-2/1/step-5")).failure, HasSubstr("open the checkpoint's folder"));
  EXPECT_EQ(Read(RequestOf("empty", 1)).failure, "it has 0 bytes, so it cannot be read from byte 1 on");
  EXPECT_EQ(Read(RequestOf("empty", -1)).failure, "it has 0 bytes, so it cannot be read from byte -1 on");
}

TEST_F(PiecesTest, AFileThatBecomesShorter_IsAFailure) {
  const FileUplink::NextPiece next = PiecesOf(root_, RequestOf("model.safetensors"));
  EXPECT_EQ(next().failure(), "");
  fs::resize_file(root_ + "/j-1/1/step-5/model.safetensors", 10);
  EXPECT_EQ(next().failure(), "the file has become shorter");
}

// An uplink whose calls block until the test calls Release.
class HeldUplink final : public FileUplink {
 public:
  absl::Status Send(const NextPiece& next) override {
    absl::MutexLock lock(&mutex_);
    started_.push_back(next().transfer());
    mutex_.Await(absl::Condition(&released_));
    return absl::OkStatus();
  }
  void Cancel() override { Release(); }
  void Release() {
    absl::MutexLock lock(&mutex_);
    released_ = true;
  }
  std::vector<std::string> AwaitStarted(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return started_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    std::vector<std::string> sorted = started_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> started_ ABSL_GUARDED_BY(mutex_);
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

v1::FileRequest Transfer(const std::string& transfer) {
  v1::FileRequest request = RequestOf("model.safetensors");
  request.set_transfer(transfer);
  return request;
}

TEST(FileSenderTest, ARequestThatDirectivesRepeat_IsCarriedOutOnce) {
  HeldUplink uplink;
  FileSender sender({.root = "/nonexistent", .uplink = &uplink, .log = [](const std::string&) {}});
  sender.Send({Transfer("a")});
  uplink.AwaitStarted(1);
  sender.Send({Transfer("a"), Transfer("b")});
  EXPECT_THAT(uplink.AwaitStarted(2), testing::ElementsAre("a", "b"));
  sender.Send({Transfer("a"), Transfer("b"), Transfer("c")});  // The transfer c may wait for a free thread.
  sender.Send({});
  uplink.Release();
  EXPECT_THAT(uplink.AwaitStarted(3), testing::ElementsAre("a", "b", "c"));
}

TEST(FileSenderTest, Stop_EndsTheTransfersThatRun) {
  HeldUplink uplink;
  FileSender sender({.root = "/nonexistent", .uplink = &uplink, .log = [](const std::string&) {}});
  sender.Send({Transfer("a")});
  uplink.AwaitStarted(1);
  sender.Stop();
}

}  // namespace
}  // namespace ampd::agent
