// A checkpoint is whole or it is not there: a save that is killed or meets a full disk at any of its system calls, and
// files that were damaged afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
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
#include "base/file.h"
#include "base/random.h"
#include "base/sha256.h"
#include "tests/worker/train/trapped_process.h"
#include "worker/train/checkpoint_store.h"

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
  // In a process of its own: this one stays without threads.
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
  // As the server would have recorded it; the same in every folder.
  std::string ManifestSha(int64_t step, const std::string& folder = "root") const {
    const auto text = ReadFile(absl::StrCat((root_ / folder).string(), "/", PathOf(step), "/state.json"), 1 << 20);
    return text.ok() ? Sha256Hex(*text) : "";
  }
  static std::string PathOf(int64_t step) { return absl::StrCat("j-abc/1/step-", step); }
  bool Exists(int64_t step) const { return std::filesystem::exists(root_ / "root" / PathOf(step)); }

  // Loads it and holds every byte against what was to be saved.
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

  // What must hold whatever happened to the save of step 20, and that the next one is not hindered.
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

  // A checkpoint before, and what the save of the next one does undisturbed. Nothing where it can't be traced.
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
  static constexpr size_t kModelBytes = (9 << 20) + 1;  // more than one write, past the page cache and through it
  static constexpr size_t kOptimizerBytes = 20'000;

  std::filesystem::path root_;
  std::string model_;
  std::string optimizer_;
  std::string before_sha_;
  std::string after_sha_;
};

constexpr char kNotTraced[] = "SKIPPED: this kernel, or the container, gives no seccomp notifications";

TEST_F(CheckpointFaultsTest, KilledAtAnyOfItsSystemCalls_ASaveLeavesAllOrNothing) {
  const std::vector<std::string> calls = Prepare();
  if (calls.empty()) {
    GTEST_SKIP() << kNotTraced;
  }
  RecordProperty("calls", absl::StrJoin(calls, " "));
  int num_whole = 0;
  for (int at = 1; at <= static_cast<int>(calls.size()); ++at) {
    SCOPED_TRACE(absl::StrCat("killed at call ", at, ", ", calls[static_cast<size_t>(at) - 1]));
    const TrappedRun run = Save(20, {.at = at});
    ASSERT_TRUE(run.killed) << "it met no such call";
    num_whole += Exists(20) ? 1 : 0;
    ExpectAllOrNothing();
  }
  // The rename is neither the first nor the last of them.
  EXPECT_GT(num_whole, 0);
  EXPECT_LT(num_whole, static_cast<int>(calls.size()) / 2);
  EXPECT_GE(std::count(calls.begin(), calls.end(), "write"), 4) << absl::StrJoin(calls, " ");
  EXPECT_GE(std::count(calls.begin(), calls.end(), "fsync"), 7) << absl::StrJoin(calls, " ");
}

TEST_F(CheckpointFaultsTest, WithADiskThatIsFullAtAnyOfItsSystemCalls_ASaveSaysSoAndLeavesAllOrNothing) {
  const std::vector<std::string> calls = Prepare();
  if (calls.empty()) {
    GTEST_SKIP() << kNotTraced;
  }
  for (const auto& [error, expected] : {std::pair(ENOSPC, kDiskFull), {EIO, kCheckpointError}}) {
    for (int at = 1; at <= static_cast<int>(calls.size()); ++at) {
      const std::string& call = calls[static_cast<size_t>(at) - 1];
      SCOPED_TRACE(absl::StrCat(std::strerror(error), " at call ", at, ", ", call));
      const TrappedRun run = Save(20, {.at = at, .error = error});
      ASSERT_GE(static_cast<int>(run.calls.size()), at) << "it met no such call";
      // Taking room ahead is a hint: what it fails for is met again by the writing, if there is anything.
      EXPECT_EQ(run.exit_code, call == "fallocate" && error == EIO ? kSaved : expected);
      ExpectAllOrNothing();
    }
  }
}

// Every bit of a small one is flipped in checkpoint_store_test; here is one of a more usual size.
TEST_F(CheckpointFaultsTest, AThousandDamages_AreAllDetected) {
  model_.resize(100'000);
  std::filesystem::create_directories(root_ / "root");
  CheckpointIo io;
  CheckpointStore store(root_ / "root", io);
  ASSERT_TRUE(store.Save(Content(10)).ok());
  ASSERT_TRUE(store.Save(Content(20)).ok());
  const std::string sha = ManifestSha(10);
  ASSERT_TRUE(Check(10, sha).ok());
  SeededRandom random(kSeed);
  const std::vector<std::string> names = {"model.safetensors", "optimizer.safetensors", "state.json"};
  for (int round = 0; round < 1000; ++round) {
    const std::string& name = names[random.Next() % names.size()];
    const std::string file = root_ / "root" / PathOf(10) / name;
    const std::string whole = ReadFile(file, 1 << 20).value();
    std::string damaged = whole;
    switch (random.Next() % 4) {
      case 0:
        damaged.resize(random.Next() % whole.size());
        break;
      case 1:  // a block that was never written
        damaged.replace(random.Next() % whole.size(), 512, std::string(512, '\0'));
        damaged.resize(whole.size());
        break;
      case 2:  // the file of the next checkpoint, or the start of it
        damaged = ReadFile(root_ / "root" / PathOf(20) / names[random.Next() % names.size()], 1 << 20).value();
        damaged.resize(random.Next() % 2 == 0 ? damaged.size() : whole.size());
        break;
      default:
        for (uint64_t i = random.Next() % 8 + 1; i > 0; --i) {
          char& byte = damaged[random.Next() % damaged.size()];
          byte = static_cast<char>(byte ^ (1 << (random.Next() % 8)));
        }
    }
    if (damaged == whole) {
      continue;
    }
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(ReasonOf(Check(10, sha)), "CHECKPOINT_ERROR") << name << ", seed " << kSeed << ", round " << round;
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole;
  }
  EXPECT_TRUE(Check(10, sha).ok());
}

}  // namespace
}  // namespace ampd::train
