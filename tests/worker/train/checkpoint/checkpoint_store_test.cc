#include "worker/train/checkpoint/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Counts file operations. The operation with the number `fail_at`, counted from 1, fails with `error` (by default, a
// full disk).
class FailingIo final : public CheckpointIo {
 public:
  int fail_at = 0;
  int error = ENOSPC;
  int num_operations = 0;

  absl::Status MakeFolders(const std::string& path) override {
    return Fails() ? Error() : CheckpointIo::MakeFolders(path);
  }
  absl::Status WriteFile(const std::string& path, const std::vector<std::string_view>& parts) override {
    if (Fails()) {
      std::ofstream(path) << "half";
      return Error();
    }
    return CheckpointIo::WriteFile(path, parts);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return Fails() ? Error() : CheckpointIo::SyncFolder(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Fails() ? Error() : CheckpointIo::Rename(from, to);
  }

 private:
  bool Fails() { return ++num_operations == fail_at; }
  absl::Status Error() const { return ErrnoError(error, "write"); }
};

class CheckpointStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/checkpoints-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static CheckpointContent Content(int attempt = 1, int64_t step = 10) {
    CheckpointContent content;
    content.job_id = "j-abc";
    content.attempt = attempt;
    content.token = absl::StrCat("token", attempt);
    content.step = step;
    content.state = {{"scaler.scale", "0x1p+16"}};
    content.environment = {{"num_threads", absl::StrCat(attempt)}};
    content.files = {{"model.safetensors", {"abc", "def"}}, {"optimizer.safetensors", {""}}};
    return content;
  }
  std::vector<std::filesystem::path> Files(const std::string& path) const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / path)) {
      files.push_back(entry.path());
    }
    return files;
  }
  static std::string Slurp(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static void Spill(const std::filesystem::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  std::filesystem::path root_;
  FailingIo io_;
};

TEST_F(CheckpointStoreTest, WhatIsSaved_IsLoaded) {
  CheckpointStore store(root_, io_);
  const auto saved = store.Save(Content());
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, "j-abc/1/step-10");
  const auto loaded = store.Load(saved->path, saved->manifest_sha256);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->step, 10);
  EXPECT_EQ(loaded->state, Content().state);
  EXPECT_EQ(loaded->environment, Content().environment);
  EXPECT_EQ(loaded->files.at("model.safetensors"), "abcdef");
  EXPECT_EQ(loaded->files.at("optimizer.safetensors"), "");
  EXPECT_EQ(loaded->state_hash, saved->state_hash);
  int64_t size = 0;
  for (const auto& file : Files(saved->path)) {
    size += static_cast<int64_t>(std::filesystem::file_size(file));
  }
  EXPECT_EQ(saved->size_bytes, size);
}

TEST_F(CheckpointStoreTest, TheStateHash_IsOfTheStateAlone) {
  CheckpointStore store(root_, io_);
  const auto first = store.Save(Content(1));
  const auto second = store.Save(Content(2));
  EXPECT_EQ(first->state_hash, second->state_hash);
  EXPECT_NE(first->manifest_sha256, second->manifest_sha256);
  CheckpointContent scalar = Content(3);
  scalar.state["scaler.scale"] = "0x1p+15";
  EXPECT_NE(store.Save(scalar)->state_hash, first->state_hash);
  CheckpointContent tensor = Content(4);
  tensor.files[0].parts = {"abcdeg"};
  EXPECT_NE(store.Save(tensor)->state_hash, first->state_hash);
}

TEST_F(CheckpointStoreTest, EveryTruncationAndFlippedBitOfEveryFile_IsDetected) {
  CheckpointStore store(root_, io_);
  const auto saved = store.Save(Content());
  ASSERT_TRUE(saved.ok());
  int num_damages = 0;
  const auto expect_detected = [&](const std::filesystem::path& file, const std::string& damaged) {
    Spill(file, damaged);
    EXPECT_EQ(ReasonOf(store.Load(saved->path, saved->manifest_sha256).status()), "CHECKPOINT_ERROR") << file;
    ++num_damages;
  };
  for (const auto& file : Files(saved->path)) {
    const std::string whole = Slurp(file);
    for (size_t size = 0; size < whole.size(); ++size) {
      expect_detected(file, whole.substr(0, size));
    }
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      expect_detected(file, damaged);
    }
    expect_detected(file, whole + "x");
    std::filesystem::remove(file);
    EXPECT_EQ(ReasonOf(store.Load(saved->path, saved->manifest_sha256).status()), "CHECKPOINT_ERROR") << file;
    Spill(file, whole);
  }
  EXPECT_TRUE(store.Load(saved->path, saved->manifest_sha256).ok());
  EXPECT_GT(num_damages, 1000);
}

TEST_F(CheckpointStoreTest, WhicheverOperationFails_TheErrorIsTypedAndNothingHalfIsLoaded) {
  CheckpointStore store(root_, io_);
  ASSERT_TRUE(store.Save(Content()).ok());
  const int num_operations = io_.num_operations;
  EXPECT_EQ(num_operations, 9);
  for (const auto& [error, reason] : {std::pair(ENOSPC, "DISK_FULL"), std::pair(EACCES, "CHECKPOINT_ERROR")}) {
    for (int fail_at = 1; fail_at <= num_operations; ++fail_at) {
      std::filesystem::remove_all(root_ / "j-abc");
      io_.num_operations = 0;
      io_.fail_at = fail_at;
      io_.error = error;
      const absl::Status status = store.Save(Content()).status();
      EXPECT_EQ(ReasonOf(status), reason) << fail_at << ": " << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(std::string("the checkpoint of step 10 can't be written: ") + std::strerror(error) + ";"));
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(root_.string())));
      EXPECT_FALSE(std::filesystem::exists(root_ / "j-abc/1/.step-10.tmp"));
      io_.fail_at = 0;
      const auto again = store.Save(Content());
      ASSERT_TRUE(again.ok()) << fail_at << ": " << again.status();
      EXPECT_TRUE(store.Load(again->path, again->manifest_sha256).ok());
    }
  }
}

TEST_F(CheckpointStoreTest, WhicheverOperationFails_TheCheckpointBeforeStays) {
  CheckpointStore store(root_, io_);
  const auto before = store.Save(Content(1, 10));
  ASSERT_TRUE(before.ok());
  const int num_operations = io_.num_operations;
  for (const int error : {ENOSPC, EDQUOT, EIO, EROFS}) {
    for (int fail_at = 1; fail_at <= num_operations; ++fail_at) {
      io_.num_operations = 0;
      io_.fail_at = fail_at;
      io_.error = error;
      const absl::Status status = store.Save(Content(1, 20)).status();
      EXPECT_EQ(ReasonOf(status), error == ENOSPC || error == EDQUOT ? "DISK_FULL" : "CHECKPOINT_ERROR") << status;
      EXPECT_GE(io_.num_operations, fail_at) << "the fault did not fire";
      const auto loaded = store.Load(before->path, before->manifest_sha256);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->state_hash, before->state_hash);
      std::filesystem::remove_all(root_ / "j-abc/1/step-20");
    }
  }
}

// Uses the system's file operations without changes, and limits the size of files to 4 KiB, so that a write fails.
TEST_F(CheckpointStoreTest, AFileThatMayNotGrow_IsAnErrorAndNothingIsLeftOfIt) {
  CheckpointIo io;
  CheckpointStore store(root_, io);
  const auto before = store.Save(Content(1, 10));
  ASSERT_TRUE(before.ok());
  const std::string large(1 << 16, 'x');
  CheckpointContent content = Content(1, 20);
  content.files[0].parts = {large};
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit = {1 << 12, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = store.Save(content).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(ReasonOf(status), "CHECKPOINT_ERROR") << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "j-abc/1/.step-20.tmp"));
  EXPECT_TRUE(store.Load(before->path, before->manifest_sha256).ok());
  EXPECT_TRUE(store.Save(content).ok());
}

TEST_F(CheckpointStoreTest, ATemporaryFolder_IsNeverLoadedAndDoesNotStandInTheWay) {
  CheckpointStore store(root_, io_);
  const auto saved = store.Save(Content());
  std::filesystem::rename(root_ / saved->path, root_ / "j-abc/1/.step-10.tmp");
  EXPECT_EQ(ReasonOf(store.Load("j-abc/1/.step-10.tmp", saved->manifest_sha256).status()), "CHECKPOINT_ERROR");
  EXPECT_EQ(ReasonOf(store.Load(saved->path, saved->manifest_sha256).status()), "CHECKPOINT_ERROR");
  EXPECT_TRUE(store.Save(Content()).ok());
}

TEST_F(CheckpointStoreTest, WhatKilledAttemptsLeft_IsRemovedByTheJobsNextSave) {
  CheckpointStore store(root_, io_);
  const auto before = store.Save(Content(1, 10));
  ASSERT_TRUE(before.ok());
  for (const char* leftover : {"j-abc/1/.step-20.tmp", "j-abc/2/.step-30.tmp", "j-other/1/.step-20.tmp"}) {
    std::filesystem::create_directories(root_ / leftover);
    Spill(root_ / leftover / "model.safetensors", "half");
  }
  Spill(root_ / "j-abc/notes", "a file where attempts are");
  ASSERT_TRUE(store.Save(Content(3, 40)).ok());
  EXPECT_FALSE(std::filesystem::exists(root_ / "j-abc/1/.step-20.tmp"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "j-abc/2/.step-30.tmp"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "j-other/1/.step-20.tmp")) << "another job may be saving";
  EXPECT_TRUE(store.Load(before->path, before->manifest_sha256).ok());
}

TEST_F(CheckpointStoreTest, PathsOutOfTheRoot_AreRefused) {
  CheckpointStore store(root_, io_);
  const auto saved = store.Save(Content());
  CheckpointStore inner(root_ / "j-abc", io_);
  for (const char* path : {"../j-abc/1/step-10", "/j-abc/1/step-10", "j-abc/1/step-10/", "j-abc/1/step-", "j/../step-1",
                           "j-abc/1", "", "j-abc//step-10"}) {
    EXPECT_THAT(std::string(store.Load(path, saved->manifest_sha256).status().message()), HasSubstr("not <job>"))
        << path;
  }
  CheckpointContent content = Content();
  content.job_id = "../elsewhere";
  EXPECT_EQ(ReasonOf(store.Save(content).status()), "CHECKPOINT_ERROR");
}

TEST_F(CheckpointStoreTest, TheSameStepAgain_IsFineWithTheSameContentOnly) {
  CheckpointStore store(root_, io_);
  const auto first = store.Save(Content());
  EXPECT_EQ(store.Save(Content())->manifest_sha256, first->manifest_sha256);
  CheckpointContent other = Content();
  other.state["scaler.scale"] = "1";
  EXPECT_EQ(ReasonOf(store.Save(other).status()), "CHECKPOINT_ERROR");
  EXPECT_TRUE(store.Load(first->path, first->manifest_sha256).ok());
}

}  // namespace
}  // namespace ampd::train
