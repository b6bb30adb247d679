#include "client/compare/expected_time.h"

#include <gtest/gtest.h>

#include "tests/client/compare/planted_runs.h"

namespace ampd::client {
namespace {

TEST(ExpectedTimeOf, IsTheTimeAtThePaceOfTheNewestJobWithTheSameSteps) {
  v1::JobSpec spec = JobOf({.num_steps = 1000}).spec();
  v1::Job newest = JobOf({.precision = "bf16", .step_seconds = 0.5});
  newest.set_id("j-newest");
  const auto time = ExpectedTimeOf(spec, "bf16", "CPU", {newest, JobOf({.precision = "bf16", .step_seconds = 0.1})});
  ASSERT_TRUE(time.has_value());
  EXPECT_DOUBLE_EQ(time->seconds, 500);
  EXPECT_EQ(time->job_id, "j-newest");
  EXPECT_EQ(time->device, "w1/cpu");
}

TEST(ExpectedTimeOf, AJobThatDidOtherWork_SaysNothing) {
  const v1::JobSpec spec = JobOf({}).spec();
  const v1::Job job = JobOf({});
  EXPECT_TRUE(ExpectedTimeOf(spec, "fp32", "CPU", {job}).has_value());
  EXPECT_FALSE(ExpectedTimeOf(spec, "bf16", "CPU", {job}).has_value());
  EXPECT_FALSE(ExpectedTimeOf(spec, "fp32", "GPU", {job}).has_value());
  v1::JobSpec other = spec;
  other.mutable_data()->set_batch_size(64);
  EXPECT_FALSE(ExpectedTimeOf(other, "fp32", "CPU", {job}).has_value());
  other = spec;
  other.mutable_model()->mutable_lenet()->set_hidden(256);
  EXPECT_FALSE(ExpectedTimeOf(other, "fp32", "CPU", {job}).has_value());
  EXPECT_FALSE(ExpectedTimeOf(spec, "fp32", "CPU", {}).has_value());
}

TEST(ExpectedTimeOf, EpochsAreConvertedToStepsByAJobThatTrainedForEpochs) {
  v1::JobSpec spec = JobOf({}).spec();
  spec.mutable_train()->set_epochs(6);
  v1::Job job = JobOf({.step_seconds = 0.01});
  EXPECT_FALSE(ExpectedTimeOf(spec, "fp32", "CPU", {job}).has_value()) << "how long is an epoch?";
  job.mutable_spec()->mutable_train()->set_epochs(2);
  job.mutable_attempts(0)->set_total_steps(400);
  EXPECT_DOUBLE_EQ(ExpectedTimeOf(spec, "fp32", "CPU", {job})->seconds, 12);
}

}  // namespace
}  // namespace ampd::client
