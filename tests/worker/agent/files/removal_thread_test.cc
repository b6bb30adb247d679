#include "worker/agent/files/removal_thread.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/io/file.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kNow = absl::Seconds(100);

class RemovalThreadTest : public testing::Test {
 protected:
  RemovalThreadTest() {
    std::string name = testing::TempDir() + "/ampd-removals-XXXXXX";
    folder_ = mkdtemp(name.data());
    fs::create_directories(Root());
  }
  ~RemovalThreadTest() override { fs::remove_all(folder_); }

  std::string Root() const { return folder_ + "/root"; }
  void Make(const std::string& path) const { fs::create_directories(Root() + "/" + path); }
  bool Has(const std::string& path) const { return fs::exists(Root() + "/" + path); }
  CheckpointRemover Remover(std::function<void(const std::string&)> log = [](const std::string&) {}) const {
    return {Root(), folder_ + "/removals", std::move(log)};
  }
  static void Await(const RemovalThread& removals, uint64_t number) {
    while (removals.num_done() < number) {
      std::this_thread::yield();
    }
  }

  std::string folder_;
};

// The log function of this test hangs, in place of a disk.
TEST_F(RemovalThreadTest, WhileARemovalHangs_RequestsReturnAndTheNewestIsCarriedOutThen) {
  absl::Notification hangs;
  absl::Notification goes_on;
  RemovalThread removals(Remover([&](const std::string&) {
    hangs.Notify();
    goes_on.WaitForNotification();
  }));
  removals.Start();
  Make("j1/1/step-5");
  Make("j2/1/step-5");
  EXPECT_EQ(removals.Request({"../outside"}, {}, kNow), 1u);
  hangs.WaitForNotification();
  EXPECT_EQ(removals.Request({"../outside", "j1"}, {}, kNow), 2u);
  EXPECT_EQ(removals.Request({"../outside", "j1", "j2"}, {}, kNow), 3u);
  EXPECT_EQ(removals.Request({}, {}, kNow), 3u) << "this is no request";
  EXPECT_EQ(removals.num_done(), 0u);
  EXPECT_TRUE(Has("j1/1/step-5"));
  goes_on.Notify();
  Await(removals, 3);
  EXPECT_FALSE(Has("j1"));
  EXPECT_FALSE(Has("j2"));
}

TEST_F(RemovalThreadTest, PathsForLater_AreOnDiskWhenTheRequestIsDoneAndDueForTheNextAgent) {
  Make("j1/1/step-5");
  {
    RemovalThread removals(Remover());
    removals.Start();
    Await(removals, removals.Request({}, {"j1"}, kNow));
    EXPECT_EQ(ReadFile(folder_ + "/removals", 1 << 10).value_or("none"), "j1\n");
    EXPECT_EQ(removals.Due(kNow), std::vector<std::string>{"j1"});
  }
  RemovalThread next(Remover());
  next.Start();
  EXPECT_EQ(next.Due(kNow), std::vector<std::string>{"j1"});
  Await(next, next.Request({"j1"}, {}, kNow));
  EXPECT_FALSE(Has("j1"));
  EXPECT_TRUE(next.Due(absl::InfiniteDuration()).empty());
}

}  // namespace
}  // namespace ampd::agent
