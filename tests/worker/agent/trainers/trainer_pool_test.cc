#include "worker/agent/trainers/trainer_pool.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/agent/trainers/left_trainers.h"
#include "worker/shim/attempt_log.h"

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kNow = absl::Seconds(1000);

// Tests with a pool on a state folder. The pool starts a program that ends at once, instead of the real shim.
class TrainerPoolTest : public testing::Test {
 protected:
  TrainerPool::Options Options() {
    TrainerPool::Options options;
    options.state_folder = left_.state_folder();
    options.command = {"/bin/true", {"trainer"}};
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    options.on_start = [this] { ++num_started_; };
    options.on_device_change = [this] { ++num_changes_; };
    options.random = &random_;
    return options;
  }

  static std::vector<v1::Device> Devices(const std::vector<std::string>& ids) {
    std::vector<v1::Device> devices;
    for (const std::string& id : ids) {
      devices.emplace_back().set_id(id);
    }
    return devices;
  }

  static internal::Hello HelloWithError(const std::string& error) {
    internal::Hello hello;
    hello.set_device_error(error);
    return hello;
  }

  // Returns the reason why the device "cpu" is unhealthy; empty if it is healthy.
  std::string CpuError() const {
    std::vector<v1::Device> devices = Devices({"cpu"});
    pool_.MarkUnusable(&devices);
    EXPECT_EQ(devices[0].unhealthy(), !devices[0].unhealthy_reason().empty());
    return devices[0].unhealthy_reason();
  }

  // Starts a warm trainer on the CPU that ends at once: by `signal`, or with `exit_code` if that is 0. Its log has
  // `log`. Returns why the CPU is unhealthy then.
  std::string CpuErrorAfterAWarmTrainer(int signal, int exit_code, const std::string& log) {
    pool_.AllowWarm("cpu");
    pool_.KeepWarm(Devices({"cpu"}), kNow);
    const std::string id = pool_.trainers().begin()->first;
    shim::AttemptLogWriter(left_.PathOf(id), {}).Append(log);
    left_.End(id, signal, exit_code);
    SpawnedTrainer& trainer = *pool_.Find(id);
    trainer.Poll(kNow, /*read_trainer=*/true);
    EXPECT_TRUE(trainer.exited());
    pool_.CheckWarm(trainer, kNow);
    pool_.Remove(id);
    return CpuError();
  }

  LeftTrainers left_;
  SeededRandom random_{1};
  std::vector<std::string> lines_;
  int num_started_ = 0;
  int num_changes_ = 0;
  TrainerPool pool_{Options()};
};

TEST_F(TrainerPoolTest, TrainersOfAnEarlierAgent_AreAdopted) {
  left_.Add("warm");
  left_.Add("bound", "j1");
  pool_.Adopt();
  ASSERT_EQ(pool_.trainers().size(), 2u);
  EXPECT_FALSE(pool_.Find("warm")->bound());
  EXPECT_TRUE(pool_.Find("bound")->bound());
  EXPECT_EQ(pool_.Find("none"), nullptr);
  EXPECT_FALSE(pool_.IsConnected()) << "nobody listens";
  EXPECT_EQ(num_started_, 0);
}

TEST_F(TrainerPoolTest, WarmTrainerOfTheDevice_IsAssignedAndBoundOnDisk) {
  left_.Add("warm");
  pool_.Adopt();
  const absl::StatusOr<SpawnedTrainer*> trainer = pool_.Assign("cpu", LeftTrainers::Key("j1"), kNow);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ(*trainer, pool_.Find("warm"));
  EXPECT_EQ(num_started_, 0);
  TrainerPool next(Options());
  next.Adopt();
  ASSERT_NE(next.Find("warm"), nullptr);
  EXPECT_EQ(next.Find("warm")->record().key().job_id(), "j1");
}

TEST_F(TrainerPoolTest, WithoutAWarmTrainerOfTheDevice_OneIsStartedForTheAttempt) {
  left_.Add("warm");
  left_.Add("bound", "j0");
  pool_.Adopt();
  const absl::StatusOr<SpawnedTrainer*> trainer = pool_.Assign("gpu0", LeftTrainers::Key("j1"), kNow);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ(num_started_, 1);
  EXPECT_EQ((*trainer)->record().device(), "gpu0");
  EXPECT_EQ((*trainer)->record().key().job_id(), "j1");
  EXPECT_FALSE(pool_.Find("warm")->bound());
}

TEST_F(TrainerPoolTest, WarmTrainerThatIsBeingKilled_IsNotAssigned) {
  left_.Add("warm");
  pool_.Adopt();
  pool_.OnHello(*pool_.Find("warm"), HelloWithError("no driver"), kNow);
  const absl::StatusOr<SpawnedTrainer*> trainer = pool_.Assign("cpu", LeftTrainers::Key("j1"), kNow);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_NE(*trainer, pool_.Find("warm"));
  EXPECT_EQ(num_started_, 1);
}

TEST_F(TrainerPoolTest, FolderThatCannotBeMade_FailsTheAssignmentAndMakesTheDeviceUnhealthy) {
  std::ofstream(left_.state_folder() + "/spawn") << "a file where a folder should be";
  EXPECT_FALSE(pool_.Assign("cpu", LeftTrainers::Key("j1"), kNow).ok());
  EXPECT_TRUE(pool_.empty());
  EXPECT_EQ(num_started_, 0);
  EXPECT_THAT(CpuError(), testing::StartsWith("the worker can't start a trainer: make a spawn folder: "));
  // Once the folder can be made, a trainer tests the device.
  fs::remove(left_.state_folder() + "/spawn");
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Seconds(59));
  EXPECT_EQ(num_started_, 0);
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Minutes(1));
  ASSERT_EQ(num_started_, 1);
  pool_.OnHello(*pool_.trainers().begin()->second, internal::Hello(), kNow + absl::Minutes(1));
  EXPECT_EQ(CpuError(), "");
}

TEST_F(TrainerPoolTest, WarmTrainerThatCannotBeBound_IsEndedAndItsDeviceIsUnhealthy) {
  left_.Add("warm");
  pool_.Adopt();
  fs::remove_all(left_.PathOf("warm"));
  EXPECT_FALSE(pool_.Assign("cpu", LeftTrainers::Key("j1"), kNow).ok());
  EXPECT_TRUE(pool_.Find("warm")->killed());
  EXPECT_THAT(CpuError(), testing::StartsWith("the worker can't start a trainer: "));
}

TEST_F(TrainerPoolTest, DeviceWithoutATrainer_GetsAWarmOneAtIntervals) {
  left_.Add("bound", "j1");
  pool_.Adopt();
  const std::vector<v1::Device> devices = Devices({"cpu", "gpu0"});
  pool_.KeepWarm(devices, kNow);
  ASSERT_EQ(num_started_, 1) << "cpu has a trainer";
  const auto started = std::find_if(pool_.trainers().begin(), pool_.trainers().end(),
                                    [](const auto& entry) { return entry.second->record().device() == "gpu0"; });
  EXPECT_FALSE(started->second->bound());
  pool_.Remove(started->first);
  pool_.KeepWarm(devices, kNow + absl::Seconds(4));
  EXPECT_EQ(num_started_, 1);
  pool_.KeepWarm(devices, kNow + absl::Seconds(5));
  EXPECT_EQ(num_started_, 2);
}

TEST_F(TrainerPoolTest, DeviceWhoseTrainerWorked_GetsTheNextWarmOneAtOnce) {
  pool_.KeepWarm(Devices({"cpu"}), kNow);
  ASSERT_EQ(num_started_, 1);
  pool_.Remove(pool_.trainers().begin()->first);
  pool_.AllowWarm("cpu");
  pool_.KeepWarm(Devices({"cpu"}), kNow);
  EXPECT_EQ(num_started_, 2);
}

TEST_F(TrainerPoolTest, WarmTrainersThatAreNotWanted_AreNotStarted) {
  TrainerPool::Options options = Options();
  options.warm = false;
  TrainerPool pool(options);
  pool.KeepWarm(Devices({"cpu"}), kNow);
  EXPECT_TRUE(pool.empty());
}

TEST_F(TrainerPoolTest, DeviceThatAWarmTrainerCannotUse_IsUnhealthyUntilOneCan) {
  left_.Add("warm");
  pool_.Adopt();
  SpawnedTrainer& warm = *pool_.Find("warm");
  EXPECT_EQ(CpuError(), "");
  pool_.OnHello(warm, HelloWithError("no driver"), kNow);
  pool_.OnHello(warm, HelloWithError("no driver"), kNow);
  EXPECT_EQ(CpuError(), "no driver");
  EXPECT_EQ(num_changes_, 1);
  pool_.OnHello(warm, HelloWithError(""), kNow);
  EXPECT_EQ(CpuError(), "");
  EXPECT_EQ(num_changes_, 2);
  EXPECT_THAT(lines_, ElementsAre("cpu can't be used: no driver", "cpu can be used again"));
}

// If jobs wait for the device, its next trainer is started for an attempt, and there is no warm one.
TEST_F(TrainerPoolTest, DeviceThatATrainerOfAnAttemptCannotUse_IsUnhealthyAndTheTrainerMayReportIt) {
  left_.Add("bound", "j1");
  pool_.Adopt();
  pool_.OnHello(*pool_.Find("bound"), HelloWithError("no driver"), kNow);
  EXPECT_EQ(CpuError(), "no driver");
  EXPECT_FALSE(pool_.Find("bound")->killed());
  pool_.Remove("bound");
  pool_.AllowWarm("cpu");
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Seconds(59));
  EXPECT_EQ(num_started_, 0) << "the device is tried again after a minute";
}

TEST_F(TrainerPoolTest, WarmTrainerThatEndsBeforeItIsReady_MakesItsDeviceUnhealthyWithTheEndOfItsLog) {
  const std::string error =
      CpuErrorAfterAWarmTrainer(0, 127, "some line\nampd-trainer: error while loading shared libraries: libtorch.so\n");
  EXPECT_EQ(error,
            "the trainer ended before it was ready, with exit code 127: ampd-trainer: error while loading shared "
            "libraries: libtorch.so");
  EXPECT_THAT(lines_, ElementsAre("cpu can't be used: " + error));
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Seconds(59));
  EXPECT_EQ(num_started_, 1);
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Minutes(1));
  EXPECT_EQ(num_started_, 2);
}

TEST_F(TrainerPoolTest, WarmTrainerThatCrashesBeforeItIsReady_MakesItsDeviceUnhealthyWithTheSignal) {
  EXPECT_EQ(CpuErrorAfterAWarmTrainer(SIGSEGV, 0, ""), "the trainer ended before it was ready, by signal 11");
}

TEST_F(TrainerPoolTest, WarmTrainerThatSomebodyKilled_SaysNothingAboutItsDevice) {
  EXPECT_EQ(CpuErrorAfterAWarmTrainer(SIGKILL, 0, "some line\n"), "");
  EXPECT_EQ(CpuErrorAfterAWarmTrainer(0, 0, "some line\n"), "");
}

TEST_F(TrainerPoolTest, WarmTrainerOfAnEarlierAgentThatHasEnded_SaysNothingAboutItsDevice) {
  left_.Add("warm");
  left_.End("warm", SIGSEGV);
  pool_.Adopt();
  pool_.Find("warm")->Poll(kNow, /*read_trainer=*/true);
  pool_.CheckWarm(*pool_.Find("warm"), kNow);
  EXPECT_EQ(CpuError(), "") << "nobody knows whether it was ready";
}

TEST_F(TrainerPoolTest, WithoutWarmTrainers_AnUnusableDeviceIsTestedByATrainerThatEndsThen) {
  TrainerPool::Options options = Options();
  options.warm = false;
  TrainerPool pool(options);
  left_.Add("bound", "j1");
  pool.Adopt();
  pool.OnHello(*pool.Find("bound"), HelloWithError("no driver"), kNow);
  pool.Remove("bound");
  pool.KeepWarm(Devices({"cpu", "gpu0"}), kNow + absl::Minutes(1));
  ASSERT_EQ(pool.trainers().size(), 1u);
  SpawnedTrainer& test = *pool.trainers().begin()->second;
  EXPECT_EQ(test.record().device(), "cpu");
  pool.OnHello(test, internal::Hello(), kNow + absl::Minutes(1));
  EXPECT_TRUE(test.killed());
  std::vector<v1::Device> devices = Devices({"cpu"});
  pool.MarkUnusable(&devices);
  EXPECT_FALSE(devices[0].unhealthy());
}

TEST_F(TrainerPoolTest, DeviceThatCannotBeUsed_IsTriedAgainAfterAMinute) {
  left_.Add("warm");
  pool_.Adopt();
  pool_.OnHello(*pool_.Find("warm"), HelloWithError("no driver"), kNow);
  pool_.Remove("warm");
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Seconds(59));
  EXPECT_EQ(num_started_, 0);
  pool_.KeepWarm(Devices({"cpu"}), kNow + absl::Seconds(60));
  EXPECT_EQ(num_started_, 1);
}

TEST_F(TrainerPoolTest, ExitedTrainers_AreRemovedWithTheirFoldersUnlessTheyAreUsed) {
  for (const char* id : {"running", "used", "unused"}) {
    left_.Add(id);
  }
  left_.End("used", SIGKILL);
  left_.End("unused", SIGKILL);
  pool_.Adopt();
  for (const auto& [id, trainer] : pool_.trainers()) {
    trainer->Poll(kNow, /*read_trainer=*/true);
  }
  pool_.RemoveExited([this](const SpawnedTrainer& trainer) { return &trainer == pool_.Find("used"); });
  EXPECT_NE(pool_.Find("running"), nullptr);
  EXPECT_NE(pool_.Find("used"), nullptr);
  EXPECT_EQ(pool_.Find("unused"), nullptr);
  EXPECT_FALSE(fs::exists(left_.PathOf("unused")));
  pool_.Remove("used");
  EXPECT_FALSE(fs::exists(left_.PathOf("used")));
  EXPECT_TRUE(fs::exists(left_.PathOf("running")));
}

TEST_F(TrainerPoolTest, TrainersWithoutAConnection_HaveNoDescriptor) {
  left_.Add("warm");
  pool_.Adopt();
  EXPECT_THAT(pool_.Descriptors([](const SpawnedTrainer&) { return false; }), IsEmpty());
  ASSERT_TRUE(pool_.Assign("gpu0", LeftTrainers::Key("j1"), kNow).ok());
  EXPECT_EQ(pool_.Descriptors([](const SpawnedTrainer&) { return false; }).size(), 1u) << "the end of the shim";
}

}  // namespace
}  // namespace ampd::agent
