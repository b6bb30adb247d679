#include "worker/agent/trainers/spawn_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/ipc/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class SpawnFolders : public testing::Test {
 protected:
  SpawnFolders() {
    std::string name = testing::TempDir() + "/ampd-spawn-XXXXXX";
    state_ = mkdtemp(name.data());
  }
  ~SpawnFolders() override { fs::remove_all(state_); }

  // Creates a spawn folder as an agent does before it starts a shim.
  SpawnFolder Create(const std::string& id) {
    internal::SpawnRecord record;
    record.set_spawn_id(id);
    record.set_boot_id(BootId().value());
    return SpawnFolder::Create(state_, record).value();
  }

  static void MakeLog(const SpawnFolder& folder) { std::ofstream(folder.shim_log()).flush(); }

  std::vector<std::string> Listed() const {
    std::vector<std::string> ids;
    for (const SpawnFolder& folder : SpawnFolder::List(state_)) {
      ids.push_back(folder.record().spawn_id());
    }
    return ids;
  }

  std::string state_;
};

TEST_F(SpawnFolders, OneWhoseShimBegan_IsListed) {
  MakeLog(Create("begun"));
  EXPECT_THAT(Listed(), ElementsAre("begun"));
}

TEST_F(SpawnFolders, OneWhoseRecordHasAShim_IsListed) {
  SpawnFolder folder = Create("spawned");
  internal::SpawnRecord record = folder.record();
  record.set_shim_pid(1);
  ASSERT_TRUE(folder.Write(record).ok());
  EXPECT_THAT(Listed(), ElementsAre("spawned"));
}

TEST_F(SpawnFolders, OneThatNoShimBeganIn_IsRemoved) {
  const SpawnFolder folder = Create("unborn");
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_FALSE(fs::exists(folder.path()));
}

// After a crash of the machine, files that were not synced may be missing, such as the shim's log. So the folder must
// be listed even without a log.
TEST_F(SpawnFolders, OneOfAnotherBoot_IsListedWithoutALogToo) {
  SpawnFolder folder = Create("earlier");
  internal::SpawnRecord record = folder.record();
  record.set_boot_id("another");
  ASSERT_TRUE(folder.Write(record).ok());
  EXPECT_THAT(Listed(), ElementsAre("earlier"));
}

TEST_F(SpawnFolders, OneWithoutAReadableRecord_IsRemoved) {
  const SpawnFolder folder = Create("torn");
  MakeLog(folder);
  fs::resize_file(folder.path() + "/record", 1);
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_FALSE(fs::exists(folder.path()));
}

}  // namespace
}  // namespace ampd::agent
