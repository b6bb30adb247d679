// Tests that a checkpoint is complete or absent after a failed save. The saves are killed, or meet a full disk, at each
// of their system calls. Also tests that files that are damaged after a save are detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/random.h"
#include "tests/worker/train/checkpoint/trapped_process.h"
#include "worker/train/checkpoint/checkpoint_store.h"

namespace ampd::train {
namespace {

constexpr int kSaved = 0;
constexpr int kDiskFull = 1;
constexpr int kCheckpointError = 2;
constexpr int kOtherError = 3;

class CheckpointFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/faults-XXXXXX";
    root_ = mkdtemp(pattern.data());
    SeededRandom random(kSeed);
    model_ = Bytes(random, kModelBytes);
    optimizer_ = Bytes(random, kOptimizerBytes);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static std::string Bytes(SeededRandom& random, size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random.Next());
    }
    return bytes;
  }
  CheckpointContent Content(int64_t step) const {
    CheckpointContent content;
    content.job_id = "j-abc";
    content.attempt = 1;
    content.token = "token";
    content.step = step;
    content.state = {{"scaler.scale", "0x1p+16"}, {"step", absl::StrCat(step)}};
    const std::string_view model = model_;
    content.files = {{"model.safetensors", {model.substr(0, 1000), model.substr(1000)}},
                     {"optimizer.safetensors", {optimizer_}}};
    return content;
  }
  // Saves a checkpoint in a separate process, because saving starts threads, and RunTrapped requires that this process
  // has only one thread.
  TrappedRun Save(int64_t step, const Fate& fate, const std::string& folder = "root") const {
    std::filesystem::create_directories(root_ / folder);
    return RunTrapped(fate, [&] {
      CheckpointIo io;
      const absl::Status status = CheckpointStore(root_ / folder, io).Save(Content(step)).status();
      return status.ok()                              ? kSaved
             : ReasonOf(status) == "DISK_FULL"        ? kDiskFull
             : ReasonOf(status) == "CHECKPOINT_ERROR" ? kCheckpointError
                                                      : kOtherError;
    });
  }
  // Returns the hash of a saved checkpoint's manifest, as the server would record it. The hash does not depend on the
  // folder.
  std::string ManifestSha(int64_t step, const std::string& folder = "root") const {
    const auto text = ReadFile(absl::StrCat((root_ / folder).string(), "/", PathOf(step), "/state.json"), 1 << 20);
    return text.ok() ? Sha256Hex(*text) : "";
  }
  static std::string PathOf(int64_t step) { return absl::StrCat("j-abc/1/step-", step); }
  bool Exists(int64_t step) const { return std::filesystem::exists(root_ / "root" / PathOf(step)); }

  // Loads the checkpoint and compares every byte with the content that was to be saved.
  absl::Status Check(int64_t step, const std::string& manifest_sha256) const {
    CheckpointIo io;
    const auto loaded = CheckpointStore(root_ / "root", io).Load(PathOf(step), manifest_sha256);
    if (loaded.ok() &&
        (loaded->files.at("model.safetensors") != model_ || loaded->files.at("optimizer.safetensors") != optimizer_ ||
         loaded->state != Content(step).state)) {
      return absl::InternalError("another checkpoint was loaded");
    }
    return loaded.status();
  }

  // Checks what must hold after any fault in the save of step 20: the checkpoint of step 10 is complete, the checkpoint
  // of step 20 is complete or absent, and the next save succeeds.
  void ExpectAllOrNothing() {
    EXPECT_TRUE(Check(10, before_sha_).ok()) << "the one before is gone";
    if (Exists(20)) {
      const absl::Status status = Check(20, after_sha_);
      EXPECT_TRUE(status.ok()) << "a torn checkpoint has its name: " << status;
    }
    const TrappedRun again = Save(20, {});
    EXPECT_EQ(again.exit_code, kSaved);
    EXPECT_TRUE(Check(20, after_sha_).ok());
    const auto attempt = std::filesystem::directory_iterator(root_ / "root/j-abc/1");
    EXPECT_EQ(std::distance(attempt, {}), 2) << "something was left over";
    std::filesystem::remove_all(root_ / "root" / PathOf(20));
  }

  // Saves the checkpoint of step 10, and returns the system calls of an undisturbed save of step 20. Returns no calls
  // if calls can't be traced here.
  std::vector<std::string> Prepare() {
    const TrappedRun before = Save(10, {});
    if (!before.supported) {
      return {};
    }
    const TrappedRun after = Save(20, {}, "undisturbed");
    EXPECT_EQ(before.exit_code, kSaved);
    EXPECT_EQ(after.exit_code, kSaved);
    before_sha_ = ManifestSha(10);
    after_sha_ = ManifestSha(20, "undisturbed");
    std::vector<std::string> calls = Save(20, {}).calls;
    std::filesystem::remove_all(root_ / "root" / PathOf(20));
    return calls;
  }

  static constexpr uint64_t kSeed = 20260103;
  static constexpr size_t kModelBytes = (9 << 20) + 1;  // Needs several writes, some of which bypass the page cache.
  static constexpr size_t kOptimizerBytes = 20'000;

  std::filesystem::path root_;
  std::string model_;
  std::string optimizer_;
  std::string before_sha_;
  std::string after_sha_;
};

// Tests of saves in which one of the system calls that change files fails, or the process is killed at that call.
class TrappedSaveTest : public CheckpointFaultsTest {
 protected:
  void SetUp() override {
    CheckpointFaultsTest::SetUp();
    calls_ = Prepare();
    if (calls_.empty()) {
      ASSERT_EQ(std::getenv("AMPD_REQUIRE_SECCOMP"), nullptr) << "this host gives no seccomp notifications";
      GTEST_SKIP() << "SKIPPED: this kernel, or the container, gives no seccomp notifications";
    }
  }

  std::vector<std::string> calls_;  // System calls of a save without a fault.
};

TEST_F(TrappedSaveTest, KilledAtAnyOfItsSystemCalls_ASaveLeavesAllOrNothing) {
  RecordProperty("calls", absl::StrJoin(calls_, " "));
  int num_whole = 0;
  for (int at = 1; at <= static_cast<int>(calls_.size()); ++at) {
    SCOPED_TRACE(absl::StrCat("killed at call ", at, ", ", calls_[static_cast<size_t>(at) - 1]));
    const TrappedRun run = Save(20, {.at = at});
    ASSERT_TRUE(run.killed) << "it met no such call";
    num_whole += Exists(20) ? 1 : 0;
    ExpectAllOrNothing();
  }
  // A killed save leaves a complete checkpoint only if it was killed after the rename. The rename is one of the last
  // calls, so some of the killed saves are complete, but less than half of them.
  EXPECT_GT(num_whole, 0);
  EXPECT_LT(num_whole, static_cast<int>(calls_.size()) / 2);
  EXPECT_GE(std::count(calls_.begin(), calls_.end(), "write"), 4) << absl::StrJoin(calls_, " ");
  EXPECT_GE(std::count(calls_.begin(), calls_.end(), "fsync"), 7) << absl::StrJoin(calls_, " ");
}

TEST_F(TrappedSaveTest, WithADiskThatIsFullAtAnyOfItsSystemCalls_ASaveSaysSoAndLeavesAllOrNothing) {
  for (const auto& [error, expected] : {std::pair(ENOSPC, kDiskFull), {EIO, kCheckpointError}}) {
    for (int at = 1; at <= static_cast<int>(calls_.size()); ++at) {
      const std::string& call = calls_[static_cast<size_t>(at) - 1];
      SCOPED_TRACE(absl::StrCat(std::strerror(error), " at call ", at, ", ", call));
      const TrappedRun run = Save(20, {.at = at, .error = error});
      ASSERT_GE(static_cast<int>(run.calls.size()), at) << "it met no such call";
      // A save ignores EIO when it preallocates space, because a real fault of the disk also makes the later write
      // fail.
      EXPECT_EQ(run.exit_code, call == "fallocate" && error == EIO ? kSaved : expected);
      ExpectAllOrNothing();
    }
  }
}

// Tests that damage a checkpoint of 100 KB at random places. checkpoint_store_test flips every bit of a smaller one.
class DamagedCheckpointTest : public CheckpointFaultsTest {
 protected:
  void SetUp() override {
    CheckpointFaultsTest::SetUp();
    model_.resize(100'000);
    std::filesystem::create_directories(root_ / "root");
    CheckpointIo io;
    CheckpointStore store(root_ / "root", io);
    ASSERT_TRUE(store.Save(Content(10)).ok());
    ASSERT_TRUE(store.Save(Content(20)).ok());
    sha_ = ManifestSha(10);
    ASSERT_TRUE(Check(10, sha_).ok());
  }
  void TearDown() override {
    EXPECT_TRUE(Check(10, sha_).ok());
    CheckpointFaultsTest::TearDown();
  }

  std::string Whole(int64_t step, const std::string& name) const {
    return ReadFile((root_ / "root" / PathOf(step) / name).string(), 1 << 20).value();
  }
  // Replaces the content of a file of step 10 by `bytes`, loads the checkpoint, and restores the file. Returns true if
  // `bytes` differ from the original content and loading failed.
  bool IsDamageAndDetected(const std::string& name, const std::string& bytes) {
    const std::string whole = Whole(10, name);
    const std::string file = root_ / "root" / PathOf(10) / name;
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    const absl::Status status = Check(10, sha_);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole;
    EXPECT_EQ(ReasonOf(status), bytes == whole ? "" : "CHECKPOINT_ERROR") << name << ", " << status;
    return bytes != whole && ReasonOf(status) == "CHECKPOINT_ERROR";
  }
  const std::string& AnyName(SeededRandom& random) const { return names_[random.Next() % names_.size()]; }

  const std::vector<std::string> names_ = {"model.safetensors", "optimizer.safetensors", "state.json"};
  std::string sha_;
};

TEST_F(DamagedCheckpointTest, AThousandFlippedBitsAndTruncations_AreAllDetected) {
  SeededRandom random(kSeed);
  int num_flipped = 0;
  int num_truncated = 0;
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    const std::string& name = AnyName(random);
    std::string bytes = Whole(10, name);
    if (random.Next() % 2 == 0) {
      char& byte = bytes[random.Next() % bytes.size()];
      byte = static_cast<char>(byte ^ (1 << (random.Next() % 8)));
      num_flipped += IsDamageAndDetected(name, bytes) ? 1 : 0;
    } else {
      bytes.resize(random.Next() % bytes.size());
      num_truncated += IsDamageAndDetected(name, bytes) ? 1 : 0;
    }
  }
  EXPECT_EQ(num_flipped + num_truncated, 1000);
  EXPECT_GT(num_flipped, 400);
  EXPECT_GT(num_truncated, 400);
}

TEST_F(DamagedCheckpointTest, BlocksThatWereNeverWrittenAndFilesOfOthers_AreDetected) {
  SeededRandom random(kSeed);
  int num_damaged = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    const std::string& name = AnyName(random);
    const std::string whole = Whole(10, name);
    std::string bytes = whole;
    if (random.Next() % 2 == 0) {
      bytes.replace(random.Next() % whole.size(), 512, std::string(512, '\0'));
      bytes.resize(whole.size());
    } else {  // Replace the file by a file of step 20, or by the beginning of one.
      bytes = Whole(20, AnyName(random));
      bytes.resize(random.Next() % 2 == 0 ? bytes.size() : whole.size());
    }
    num_damaged += IsDamageAndDetected(name, bytes) ? 1 : 0;
  }
  EXPECT_GT(num_damaged, 100);  // Not all 200: a file of step 20 may equal the file that it replaces.
}

}  // namespace
}  // namespace ampd::train
