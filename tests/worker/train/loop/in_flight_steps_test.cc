#include "worker/train/loop/in_flight_steps.h"

#include <gtest/gtest.h>

namespace ampd::train {
namespace {

using std::chrono::milliseconds;

InFlightSteps::Instant At(int ms) { return InFlightSteps::Instant(milliseconds(ms)); }

InFlightSteps::Step BegunAt(int ms, int64_t position = 0) {
  return {.begin = At(ms), .place = {.epoch = 0, .position = position}};
}

TEST(InFlightSteps, Read_TakesTheOldestWithWhatItWasBegunWith) {
  InFlightSteps steps;
  steps.Begin(
      {.begin = At(0), .place = {.epoch = 3, .position = 8}, .data_wait_seconds = 0.5, .reports_gradients = true});
  steps.Begin(BegunAt(1, /*position=*/16));
  ASSERT_EQ(steps.size(), 2u);
  const InFlightSteps::ReadStep first = steps.Read(At(5));
  EXPECT_EQ(first.place, (data::Sampler::Cursor{.epoch = 3, .position = 8}));
  EXPECT_EQ(first.data_wait_seconds, 0.5);
  EXPECT_TRUE(first.reports_gradients);
  const InFlightSteps::ReadStep second = steps.Read(At(6));
  EXPECT_EQ(second.place.position, 16);
  EXPECT_FALSE(second.reports_gradients);
  EXPECT_TRUE(steps.empty());
}

TEST(InFlightSteps, AStepBegunBehindTheLastOnesEnd_TookTheTimeFromItsBegin) {
  InFlightSteps steps;
  steps.Begin(BegunAt(100));
  EXPECT_DOUBLE_EQ(steps.Read(At(350)).seconds, 0.25);
  steps.Begin(BegunAt(600));
  EXPECT_DOUBLE_EQ(steps.Read(At(700)).seconds, 0.1);
}

TEST(InFlightSteps, AStepBegunBeforeTheLastOneWasRead_TookTheTimeFromThen) {
  InFlightSteps steps;
  steps.Begin(BegunAt(0));
  steps.Begin(BegunAt(100));
  EXPECT_DOUBLE_EQ(steps.Read(At(400)).seconds, 0.4);
  EXPECT_DOUBLE_EQ(steps.Read(At(700)).seconds, 0.3) << "not the 0.6 since it was begun";
}

TEST(InFlightSteps, StepsPerSecond_LeaveOutTheFirstStepAndTheTimeBetweenSteps) {
  InFlightSteps steps;
  EXPECT_EQ(steps.steps_per_second(), 0);
  steps.Begin(BegunAt(0));
  steps.Read(At(10'000));
  EXPECT_EQ(steps.steps_per_second(), 0);
  steps.Begin(BegunAt(20'000));
  steps.Begin(BegunAt(20'100));
  steps.Read(At(20'250));
  steps.Read(At(20'500));
  EXPECT_DOUBLE_EQ(steps.steps_per_second(), 4);
}

TEST(InFlightSteps, UnreadFrom_IsTheOldestStepsBatchAndBehindAllOnceAllAreRead) {
  InFlightSteps steps;
  const data::Sampler::Cursor next = {.epoch = 1, .position = 24};
  EXPECT_EQ(steps.UnreadFrom(next), next);
  steps.Begin(BegunAt(0, /*position=*/8));
  steps.Begin(BegunAt(1, /*position=*/16));
  EXPECT_EQ(steps.UnreadFrom(next).position, 8);
  steps.Read(At(2));
  EXPECT_EQ(steps.UnreadFrom(next).position, 16);
  steps.Read(At(3));
  EXPECT_EQ(steps.UnreadFrom(next), next);
}

TEST(InFlightSteps, Abandon_ForgetsTheStepsAndKeepsTheTimes) {
  InFlightSteps steps;
  steps.Begin(BegunAt(0));
  steps.Begin(BegunAt(100));
  steps.Begin(BegunAt(200));
  steps.Read(At(1000));
  steps.Read(At(1500));
  steps.Abandon();
  EXPECT_TRUE(steps.empty());
  EXPECT_DOUBLE_EQ(steps.steps_per_second(), 2);
}

}  // namespace
}  // namespace ampd::train
