// Tests of the real ampd-trainer with a fake agent, and with checkpoints that were damaged after the server recorded
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

enum class Damage { kChanged, kCutShort, kFileMissing, kManifestMissing, kFolderMissing };

class DamagedCheckpointTest : public TrainerTest {
 protected:
  // Runs twenty-one steps of the job j-abc, with checkpoints at steps 7, 14 and 21.
  void SetUp() override {
    TrainerTest::SetUp();
    whole_ = RunToOutcome(Mlp("fp32", 21));
    ASSERT_EQ(StepsOfCheckpoints(), (std::vector<int64_t>{7, 14, 21}));
  }
  std::vector<int64_t> StepsOfCheckpoints() const {
    std::vector<int64_t> steps;
    for (const v1::Checkpoint& checkpoint : whole_->checkpoints) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  }
  const v1::Checkpoint& At(int64_t step) const { return whole_->checkpoints[static_cast<size_t>(step / 7 - 1)]; }

  void DamageFile(int64_t step, Damage damage, const std::string& name = "optimizer.safetensors") {
    const std::filesystem::path folder = root_ / "checkpoints" / At(step).path();
    switch (damage) {
      case Damage::kChanged: {
        std::fstream stream(folder / name, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekp(-1, std::ios::end);
        stream.put('\x55');
        break;
      }
      case Damage::kCutShort:
        std::filesystem::resize_file(folder / name, std::filesystem::file_size(folder / name) / 2);
        break;
      case Damage::kFileMissing:
        std::filesystem::remove(folder / name);
        break;
      case Damage::kManifestMissing:
        std::filesystem::remove(folder / "state.json");
        break;
      case Damage::kFolderMissing:
        std::filesystem::remove_all(folder);
        break;
    }
  }

  // The second attempt of the job. It resumes from the newest of three checkpoints, may fall back to the two older
  // ones, and runs to step 28.
  StartAttempt Second() {
    StartAttempt start = Resumed(Mlp("fp32", 28), At(21));
    *start.add_older_checkpoints() = At(14);
    *start.add_older_checkpoints() = At(7);
    return start;
  }

  std::unique_ptr<FakeAgent> whole_;
};

class AnyDamage : public DamagedCheckpointTest, public testing::WithParamInterface<Damage> {};

std::string NameOf(const testing::TestParamInfo<Damage>& info) {
  constexpr const char* kNames[] = {"Changed", "CutShort", "FileMissing", "ManifestMissing", "FolderMissing"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, AnyDamage,
                         testing::Values(Damage::kChanged, Damage::kCutShort, Damage::kFileMissing,
                                         Damage::kManifestMissing, Damage::kFolderMissing),
                         NameOf);

TEST_P(AnyDamage, GivesWayToTheOlderOneWithAnEvent_AndEveryNumberIsThatOfTheWholeRun) {
  DamageFile(21, GetParam());
  const auto second = RunToOutcome(Second());
  ASSERT_EQ(second->outcome->kind(), Outcome::FINISHED) << second->outcome->ShortDebugString();
  const std::vector<v1::Event> damaged = EventsOf(*second, v1::Event::CHECKPOINT_DAMAGED);
  ASSERT_THAT(damaged, SizeIs(1));
  EXPECT_EQ(damaged[0].step(), 14);
  EXPECT_THAT(damaged[0].message(), HasSubstr("the attempt begins with the older checkpoint j-abc/1/step-14"));
  EXPECT_EQ(damaged[0].attributes().at("damaged"), "j-abc/1/step-21");
  EXPECT_THAT(StepsOf(EventsOf(*second, v1::Event::CHECKPOINT_LOADED)), ElementsAre(14));
  for (int64_t step = 15; step <= 21; ++step) {
    EXPECT_EQ(second->steps.at(step), whole_->steps.at(step)) << "step " << step;
  }
}

TEST_F(DamagedCheckpointTest, TwoOfThem_GiveWayToTheThird) {
  DamageFile(21, Damage::kCutShort, "model.safetensors");
  DamageFile(14, Damage::kFileMissing, "model.safetensors");
  const auto second = RunToOutcome(Second());
  ASSERT_EQ(second->outcome->kind(), Outcome::FINISHED) << second->outcome->ShortDebugString();
  EXPECT_THAT(StepsOf(EventsOf(*second, v1::Event::CHECKPOINT_DAMAGED)), ElementsAre(14, 7));
  EXPECT_THAT(second->steps, SizeIs(21));
}

TEST_F(DamagedCheckpointTest, AllOfThem_AreACheckpointErrorThatSaysWhatHelps) {
  for (const int64_t step : {7, 14, 21}) {
    DamageFile(step, Damage::kChanged);
  }
  const Outcome outcome = Run(Second());
  EXPECT_EQ(outcome.reason(), v1::Reason::CHECKPOINT_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("the job has no older checkpoint that is undamaged"));
}

TEST_F(DamagedCheckpointTest, OfAnotherJob_GivesWayWhereTheWeightsAreTaken) {
  DamageFile(21, Damage::kChanged, "model.safetensors");
  StartAttempt start = Second();
  start.mutable_key()->set_job_id("j-next");
  start.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id("j-abc");
  start.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_step(21);
  start.set_weights_only(true);
  start.mutable_start_from()->set_step(0);
  for (v1::Checkpoint& older : *start.mutable_older_checkpoints()) {
    older.set_step(0);
  }
  const auto next = RunToOutcome(start);
  ASSERT_EQ(next->outcome->kind(), Outcome::FINISHED) << next->outcome->ShortDebugString();
  EXPECT_THAT(StepsOf(EventsOf(*next, v1::Event::CHECKPOINT_DAMAGED)), ElementsAre(0));
  EXPECT_THAT(EventsOf(*next, v1::Event::WEIGHTS_LOADED), SizeIs(1));
  EXPECT_THAT(next->steps, SizeIs(28));
}

TEST_F(DamagedCheckpointTest, ASoundOne_IsTakenWithoutAWord) {
  DamageFile(7, Damage::kChanged);
  const auto second = RunToOutcome(Second());
  EXPECT_THAT(EventsOf(*second, v1::Event::CHECKPOINT_DAMAGED), IsEmpty());
  EXPECT_THAT(second->steps, SizeIs(7));
}

}  // namespace
}  // namespace ampd::train
