#include "points/step_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/points/records.h"

namespace ampd::points {
namespace {

using testing::ElementsAre;
using testing::IsNan;

TEST(CompleteColumns, ColumnsThatATrainerDoesNotKnow_AreZeros) {
  v1::StepColumns steps = Steps({1, 2});
  steps.clear_learning_rate();
  EXPECT_EQ(ReasonOf(CheckSteps(steps)), "MALFORMED_TELEMETRY");
  CompleteColumns(&steps);
  EXPECT_TRUE(CheckSteps(steps).ok());
  EXPECT_THAT(steps.learning_rate(), ElementsAre(0, 0));
}

TEST(CompleteColumns, GeneratorColumnsOfEarlierPoints_BecomePhases) {
  v1::StepColumns steps = Steps({1, 2});
  steps.add_generator_loss(3);
  steps.add_generator_loss(4);
  steps.add_generator_grad_norm(5);
  steps.add_generator_grad_norm(6);
  steps.add_generator_skipped(false);
  steps.add_generator_skipped(true);
  CompleteColumns(&steps);
  ASSERT_TRUE(CheckSteps(steps).ok()) << CheckSteps(steps);
  ASSERT_EQ(steps.phases_size(), 2);
  EXPECT_EQ(steps.phases(0).name(), "discriminator");
  EXPECT_THAT(steps.phases(0).loss(), testing::ElementsAreArray(steps.loss()));
  EXPECT_THAT(steps.phases(0).skipped(), ElementsAre(false, false));
  EXPECT_EQ(steps.phases(1).name(), "generator");
  EXPECT_THAT(steps.phases(1).loss(), ElementsAre(3, 4));
  EXPECT_THAT(steps.phases(1).grad_norm(), ElementsAre(5, 6));
  EXPECT_THAT(steps.phases(1).skipped(), ElementsAre(false, true));
  EXPECT_EQ(steps.generator_loss_size(), 0);
  const v1::StepColumns once = steps;
  CompleteColumns(&steps);
  EXPECT_EQ(steps.SerializeAsString(), once.SerializeAsString()) << "a second time changes nothing";
}

TEST(CheckSteps, ColumnsSequencesAndPhasesThatDoNotFit_AreRefused) {
  EXPECT_TRUE(CheckSteps(Steps({1, 2, 7})).ok());
  EXPECT_FALSE(CheckSteps(Steps({0})).ok());
  EXPECT_FALSE(CheckSteps(Steps({2, 2})).ok());
  v1::StepColumns ragged = Steps({1});
  ragged.add_loss(1);
  EXPECT_FALSE(CheckSteps(ragged).ok());
  v1::StepColumns phases = Steps({1, 2}, {"a", "b"});
  EXPECT_TRUE(CheckSteps(phases).ok()) << CheckSteps(phases);
  phases.mutable_phases(1)->add_skipped(true);
  EXPECT_FALSE(CheckSteps(phases).ok()) << "a longer column";
  EXPECT_FALSE(CheckSteps(Steps({1}, {"a", "a"})).ok()) << "two of one name";
  EXPECT_FALSE(CheckSteps(Steps({1}, {""})).ok()) << "no name";
  EXPECT_TRUE(CheckSteps(Steps({1}, {std::string(kMaxPhaseNameBytes, 'a')})).ok());
  EXPECT_FALSE(CheckSteps(Steps({1}, {std::string(kMaxPhaseNameBytes + 1, 'a')})).ok()) << "too long a name";
  std::vector<std::string> names;
  for (int i = 1; i <= kMaxPhases; ++i) {
    names.emplace_back(i, 'a');
  }
  EXPECT_TRUE(CheckSteps(Steps({1}, names)).ok());
  names.emplace_back("b");
  EXPECT_FALSE(CheckSteps(Steps({1}, names)).ok()) << "too many";
}

TEST(AppendSteps, PhasesGoWithTheirRows) {
  const v1::StepColumns from = Steps({1, 2, 3, 4}, {"a", "b"});
  v1::StepColumns to;
  AppendSteps(from, 1, 3, &to);
  AppendSteps(from, 3, 4, &to);
  ASSERT_TRUE(CheckSteps(to).ok()) << CheckSteps(to);
  EXPECT_THAT(to.sequence(), ElementsAre(2, 3, 4));
  EXPECT_THAT(to.phases(1).loss(), ElementsAre(from.phases(1).loss(1), from.phases(1).loss(2), from.phases(1).loss(3)));
}

TEST(AppendSteps, RowsWithoutPhases_HaveZerosForThoseOfOthers) {
  v1::StepColumns to;
  AppendSteps(Steps({1, 2}), 0, 2, &to);
  EXPECT_EQ(to.phases_size(), 0);
  const v1::StepColumns with = Steps({3}, {"a"});
  AppendSteps(with, 0, 1, &to);
  AppendSteps(Steps({4}), 0, 1, &to);
  ASSERT_TRUE(CheckSteps(to).ok()) << CheckSteps(to);
  EXPECT_THAT(to.phases(0).loss(), ElementsAre(0, 0, with.phases(0).loss(0), 0));
}

TEST(AppendSteps, ColumnsThatMayBeLeftOut_HaveNanWhereTheyWere) {
  v1::StepColumns with = Steps({3, 4});
  for (const float watts : {300.f, 310.f}) {
    with.add_power_watts(watts);
  }
  ASSERT_TRUE(CheckSteps(with).ok()) << CheckSteps(with);
  v1::StepColumns to;
  AppendSteps(Steps({1}), 0, 1, &to);
  EXPECT_EQ(to.power_watts_size(), 0);
  AppendSteps(with, 1, 2, &to);
  AppendSteps(Steps({5, 6}), 1, 2, &to);
  ASSERT_TRUE(CheckSteps(to).ok()) << CheckSteps(to);
  EXPECT_THAT(to.power_watts(), ElementsAre(IsNan(), 310.f, IsNan()));
  EXPECT_EQ(to.mfu_size(), 0);
}

TEST(CheckSteps, AColumnThatMayBeLeftOut_HasAllRowsOrNone) {
  v1::StepColumns steps = Steps({1, 2});
  steps.add_mfu(0.4f);
  EXPECT_FALSE(CheckSteps(steps).ok());
  steps.add_mfu(0.5f);
  EXPECT_TRUE(CheckSteps(steps).ok());
  steps.add_memory_reserved_bytes(1e9f);
  EXPECT_FALSE(CheckSteps(steps).ok());
  steps.add_memory_reserved_bytes(2e9f);
  steps.add_allocation_retries(1);
  EXPECT_FALSE(CheckSteps(steps).ok());
  steps.add_allocation_retries(1);
  EXPECT_TRUE(CheckSteps(steps).ok());
  v1::StepColumns to;
  AppendSteps(steps, 1, 2, &to);
  EXPECT_THAT(to.memory_reserved_bytes(), ElementsAre(2e9f));
  EXPECT_THAT(to.allocation_retries(), ElementsAre(1.f));
}

TEST(FirstStepAfter, IsTheFirstWithALargerSequence) {
  const v1::StepColumns steps = Steps({2, 4, 6});
  EXPECT_EQ(FirstStepAfter(steps, 0), 0);
  EXPECT_EQ(FirstStepAfter(steps, 4), 2);
  EXPECT_EQ(FirstStepAfter(steps, 6), 3);
}

TEST(PhaseLosses, OfARecordOfAnEarlierTrainer_AreThoseOfTheTwoNetworks) {
  v1::FinalMetrics metrics;
  metrics.set_train_loss(0.5);
  EXPECT_TRUE(PhaseLosses(metrics).empty());
  metrics.set_generator_loss(2);
  const auto losses = PhaseLosses(metrics);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].name(), "discriminator");
  EXPECT_EQ(losses[0].loss(), 0.5);
  EXPECT_EQ(losses[1].name(), "generator");
  EXPECT_EQ(losses[1].loss(), 2);
}

}  // namespace
}  // namespace ampd::points
