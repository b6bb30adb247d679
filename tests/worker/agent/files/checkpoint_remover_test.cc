#include "worker/agent/files/checkpoint_remover.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/io/file.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kRemovalTime = absl::Seconds(100);

class CheckpointRemoverTest : public testing::Test {
 protected:
  CheckpointRemoverTest() {
    std::string name = testing::TempDir() + "/ampd-remover-XXXXXX";
    folder_ = mkdtemp(name.data());
    root_ = folder_ + "/root";
    fs::create_directories(root_);
  }
  ~CheckpointRemoverTest() override { fs::remove_all(folder_); }

  void Make(const std::string& path) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << "x";
  }
  bool Has(const std::string& path) const { return fs::exists(fs::symlink_status(root_ + "/" + path)); }
  // Makes a folder that the remover can't remove completely, even as root: it contains folders that are nested deeper
  // than a checkpoint's.
  std::string MakeStubborn() {
    const std::string path = "j1/1/2/3/4/5/6/7/8/9/10";
    fs::create_directories(root_ + "/" + path);
    return path;
  }
  // Makes a remover that loads the pending removals, as after a restart of the agent.
  CheckpointRemover Start() {
    CheckpointRemover remover(root_, folder_ + "/removals", [this](const std::string& line) { log_ += line + "\n"; });
    remover.Load();
    return remover;
  }
  std::string Kept() const { return ReadFile(folder_ + "/removals", 1 << 20).value_or("none"); }

  std::string folder_;
  std::string root_;
  std::string log_;
};

TEST_F(CheckpointRemoverTest, FolderOfAJob_GoesWithEverythingInIt) {
  Make("j1/1/step-5/model.safetensors");
  Make("j1/1/.step-7.tmp/model.safetensors");
  Make("j1/2/step-9/state.json");
  Make("j10/1/step-5/state.json");
  Start().Remove({"j1", "gone", "gone/1/step-1"}, {}, kRemovalTime);
  EXPECT_FALSE(Has("j1"));
  EXPECT_TRUE(Has("j10/1/step-5/state.json"));
  EXPECT_EQ(log_, "");
  EXPECT_EQ(Kept(), "none") << "a file for nothing";
}

TEST_F(CheckpointRemoverTest, Links_AreRemovedAndNotFollowed) {
  fs::create_directories(folder_ + "/outside/kept");
  Make("j2/1/step-5/state.json");
  fs::create_directories(root_ + "/j1/1");
  fs::create_symlink(folder_ + "/outside", root_ + "/j1/1/step-5");
  fs::create_symlink(root_ + "/j2", root_ + "/j1/2");
  fs::create_symlink(folder_ + "/outside", root_ + "/link");
  Start().Remove({"j1/2/1/step-5", "link/kept", "j1"}, {}, kRemovalTime);
  EXPECT_FALSE(Has("j1"));
  EXPECT_TRUE(fs::exists(folder_ + "/outside/kept"));
  EXPECT_TRUE(Has("j2/1/step-5/state.json"));
}

TEST_F(CheckpointRemoverTest, PathOutOfTheRoot_IsRefusedAndToldOnce) {
  fs::create_directories(folder_ + "/outside");
  Make("j1/1/step-5/state.json");
  CheckpointRemover remover = Start();
  for (int i = 0; i < 2; ++i) {
    remover.Remove({"../outside", folder_ + "/outside", "", ".", "j1/..", "j1//1", "j1/1\nj2"}, {}, kRemovalTime);
  }
  EXPECT_TRUE(fs::exists(folder_ + "/outside"));
  EXPECT_TRUE(Has("j1/1/step-5/state.json"));
  EXPECT_EQ(log_.find("root: ../outside\n"), log_.rfind("root: ../outside\n")) << log_;
  EXPECT_NE(log_.find("root: ../outside\n"), std::string::npos) << log_;
  EXPECT_TRUE(DueAt(remover.pending(), absl::InfiniteDuration()).empty());
}

TEST_F(CheckpointRemoverTest, WhatCannotBeRemoved_IsTriedAgainAlsoByTheNextAgent) {
  const std::string stubborn = MakeStubborn();
  Make("j1/1/file");
  CheckpointRemover remover = Start();
  remover.Remove({"j1"}, {}, kRemovalTime);
  remover.Remove({}, {}, kRemovalTime);
  EXPECT_FALSE(Has("j1/1/file")) << "as much as could be";
  EXPECT_TRUE(DueAt(remover.pending(), kRemovalTime + absl::Seconds(59)).empty());
  EXPECT_EQ(DueAt(remover.pending(), kRemovalTime + absl::Minutes(1)), std::vector<std::string>{"j1"});
  remover.Remove({"j1"}, {}, kRemovalTime + absl::Minutes(1));
  EXPECT_EQ(log_.find("can't delete checkpoint j1"), log_.rfind("can't delete checkpoint j1")) << log_;
  EXPECT_NE(log_.find("can't delete checkpoint j1"), std::string::npos) << log_;

  CheckpointRemover next = Start();
  EXPECT_EQ(DueAt(next.pending(), absl::ZeroDuration()), std::vector<std::string>{"j1"});
  fs::remove_all(root_ + "/j1/1/2/3");
  next.Remove({"j1"}, {}, kRemovalTime);
  EXPECT_FALSE(Has("j1"));
  EXPECT_EQ(Kept(), "");
  EXPECT_TRUE(Start().pending().empty());
}

TEST_F(CheckpointRemoverTest, WhatIsForLater_IsKeptAlsoForTheNextAgent) {
  Make("j1/1/step-5/state.json");
  Start().Remove({}, {"j1", "j2/3"}, kRemovalTime);
  EXPECT_TRUE(Has("j1/1/step-5/state.json"));
  CheckpointRemover next = Start();
  EXPECT_EQ(DueAt(next.pending(), kRemovalTime), (std::vector<std::string>{"j1", "j2/3"}));
  next.Remove({"j1"}, {"j2/3"}, kRemovalTime);
  EXPECT_FALSE(Has("j1"));
  EXPECT_EQ(Kept(), "j2/3\n");
}

TEST_F(CheckpointRemoverTest, RootThatIsAway_KeepsWhatIsToBeRemoved) {
  fs::rename(root_, folder_ + "/unmounted");
  CheckpointRemover remover = Start();
  remover.Remove({"j1"}, {}, kRemovalTime);
  EXPECT_EQ(DueAt(remover.pending(), kRemovalTime + absl::Minutes(1)), std::vector<std::string>{"j1"});
}

}  // namespace
}  // namespace ampd::agent
