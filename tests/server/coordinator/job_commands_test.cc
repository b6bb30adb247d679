#include "server/coordinator/job_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using v1::Attempt;
using v1::Job;
using v1::Outcome;

class JobCommandsTest : public CoordinatorTest {};

TEST_F(JobCommandsTest, Cancel_ReachesTheWorkerAndTheEnd) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  EXPECT_EQ((*result)->state(), Job::CANCELLING);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).desired(), Job::CANCEL);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::LEFT, v1::Reason::USER_CANCELLED);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "CANCELLED USER_CANCELLED");
}

TEST_F(JobCommandsTest, LossScaleRule_IsSentWithEveryValueFilledIn) {
  ScriptedWorker worker("w1");
  const std::string id = CreateIdOf("fp16");
  const v1::AttemptKey key = StartOn(worker, id);
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  const v1::DynamicLossScale& rule = directive.attempts(0).loss_scale().dynamic();
  EXPECT_EQ(rule.initial(), 65536);
  EXPECT_EQ(rule.growth_factor(), 2);
  EXPECT_EQ(rule.backoff_factor(), 0.5);
  EXPECT_EQ(rule.growth_interval(), 2000);
  EXPECT_EQ(rule.hysteresis(), 1);
  EXPECT_EQ(rule.at_floor(), v1::DynamicLossScale::CLAMP);
  EXPECT_NE(rule.hysteresis_refill(), v1::DynamicLossScale::HYSTERESIS_REFILL_UNSPECIFIED);

  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::NONFINITE_LOSS);
  Exchange(worker);
  v1::CloneJobRequest request;
  request.set_id(id);
  request.set_from_last_checkpoint(true);
  absl::StatusOr<JobPtr> clone;
  coordinator->commands().CloneJob(request, Into(&clone));
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  const auto record = ledger->Read([&](const ClusterState& state) { return state.FindJob((*clone)->id()); });
  ASSERT_EQ(record->loss_scales_size(), 1);
  EXPECT_EQ(record->loss_scales(0).precision(), "fp16");
}

TEST_F(JobCommandsTest, LossScaleOrder_IsPassedOnWithItsNumber) {
  ScriptedWorker worker("w1");
  const std::string id = CreateIdOf("fp16");
  StartOn(worker, id);
  v1::UpdateJobRequest request;
  request.set_id(id);
  request.mutable_update_mask()->add_paths("loss_scale_order");
  absl::StatusOr<JobPtr> result;
  coordinator->commands().UpdateJob(request, Into(&result));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  request.mutable_loss_scale_order()->set_scale(1024);
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  ASSERT_TRUE(result.ok());
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  EXPECT_EQ(directive.attempts(0).live_loss_scale().ShortDebugString(), "scale: 1024 scale_number: 1 number: 1");
}

TEST_F(JobCommandsTest, LossScaleOrder_LeavesInForceWhatItDoesNotSet) {
  ScriptedWorker worker("w1");
  const std::string id = CreateIdOf("fp16");
  StartOn(worker, id);
  // Sends a loss scale order. Returns the settings that the worker then gets, in protobuf's text format: each setting
  // with the number of the order that set it, and the number of the newest order.
  const auto after = [&](std::optional<double> scale, std::optional<int> growth_interval) {
    v1::UpdateJobRequest request;
    request.set_id(id);
    request.mutable_update_mask()->add_paths("loss_scale_order");
    if (scale.has_value()) request.mutable_loss_scale_order()->set_scale(*scale);
    if (growth_interval.has_value()) request.mutable_loss_scale_order()->set_growth_interval(*growth_interval);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    EXPECT_TRUE(result.ok());
    const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
    return directive.attempts(0).live_loss_scale().ShortDebugString();
  };
  const auto text = [](double scale, int scale_number, int interval, int interval_number) {
    return absl::StrCat("scale: ", scale, " scale_number: ", scale_number, " growth_interval: ", interval,
                        " growth_interval_number: ", interval_number,
                        " number: ", std::max(scale_number, interval_number));
  };
  EXPECT_EQ(after(1024, std::nullopt), "scale: 1024 scale_number: 1 number: 1");
  EXPECT_EQ(after(std::nullopt, 500), text(1024, 1, 500, 2));
  EXPECT_EQ(after(std::nullopt, 600), text(1024, 1, 600, 3));
  EXPECT_EQ(after(64, std::nullopt), text(64, 4, 600, 3));
  EXPECT_EQ(after(32, 700), text(32, 5, 700, 5));
  EXPECT_EQ(after(16, std::nullopt), text(16, 6, 700, 5));
}

TEST_F(JobCommandsTest, LossScaleOrder_IsRefusedWhereNoLossIsScaled) {
  const auto order = [this](const std::string& id) {
    v1::UpdateJobRequest request;
    request.set_id(id);
    request.mutable_update_mask()->add_paths("loss_scale_order");
    request.mutable_loss_scale_order()->set_scale(1024);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    return result.ok() ? "OK" : ReasonOf(result.status());
  };
  const auto create_preferring = [this](const std::vector<std::string>& presets) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec();
    v1::PrecisionPolicy& policy = *request.mutable_spec()->mutable_precision();
    policy.clear_preset();
    policy.mutable_prefer()->Assign(presets.begin(), presets.end());
    absl::StatusOr<JobPtr> created = absl::UnknownError("never answered");
    coordinator->commands().CreateJob(request, Into(&created));
    Pump();
    return (*created)->id();
  };
  EXPECT_EQ(order(CreateIdOf("bf16")), "LOSS_SCALE_OFF");
  EXPECT_EQ(order(CreateIdOf("fp16")), "OK");
  EXPECT_EQ(order(create_preferring({"bf16", "fp32"})), "LOSS_SCALE_OFF");
  EXPECT_EQ(order(create_preferring({"bf16", "fp16"})), "OK");
  EXPECT_EQ(order("j-none"), "JOB_NOT_FOUND");
  const std::string ended = CreateIdOf("bf16");
  v1::CancelJobRequest cancel;
  cancel.set_id(ended);
  absl::StatusOr<JobPtr> cancelled;
  coordinator->commands().CancelJob(cancel, Into(&cancelled));
  Pump();
  EXPECT_EQ(order(ended), "WRONG_STATE") << "that it has ended says more";
}

TEST_F(JobCommandsTest, LossScaleOrder_BeyondFloorOrCapIsRefusedAndBothAreNamed) {
  const auto order = [this](const std::string& id, double scale) {
    v1::UpdateJobRequest request;
    request.set_id(id);
    request.mutable_update_mask()->add_paths("loss_scale_order");
    request.mutable_loss_scale_order()->set_scale(scale);
    absl::StatusOr<JobPtr> result;
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    return result.ok() ? "OK" : std::string(result.status().message());
  };
  const std::string id = CreateIdOf("fp16");
  EXPECT_EQ(order(id, 0x1p24), "OK");
  EXPECT_EQ(order(id, 1), "OK");
  EXPECT_THAT(order(id, 1e30),
              testing::HasSubstr("loss_scale_order.scale: is 1e+30; must be from 1, the floor, to 16777216, the "
                                 "cap of fp16"));
  EXPECT_THAT(order(id, 0.5), testing::HasSubstr("is 0.5; must be from 1, the floor"));
  EXPECT_EQ(order(CreateIdOf("torch-amp-fp16"), 1e30), "OK") << "its cap is what fp32 can hold";
  EXPECT_EQ(order(CreateIdOf("auto"), 1e30), "OK") << "what the device's choice allows, the trainer knows";
  EXPECT_THAT(order(id, 1e300),
              testing::HasSubstr("is 1e+300; must be from 1, the floor, to 16777216, the cap of fp16"));
  EXPECT_THAT(order(CreateIdOf("auto"), 1e300),
              testing::HasSubstr("is 1e+300; must be at most 3.4028235e+38, the largest number of fp32"));
  EXPECT_THAT(order(id, std::numeric_limits<double>::infinity()), testing::HasSubstr("must be above 0 and finite"));
}

TEST_F(JobCommandsTest, LossScaleOrder_OfAPrecisionThatADeviceChoosesIsRefusedOnceItChose) {
  v1::UpdateJobRequest request;
  request.set_id(CreateIdOf("auto"));
  request.mutable_update_mask()->add_paths("loss_scale_order");
  request.mutable_loss_scale_order()->set_scale(1024);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_TRUE(result.ok()) << result.status();
  ScriptedWorker worker("w1");
  StartOn(worker, request.id());
  EXPECT_EQ(PrecisionOf(request.id()), "fp32");
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_EQ(ReasonOf(result.status()), "LOSS_SCALE_OFF");
}

TEST_F(JobCommandsTest, RequestForGradients_IsPassedOnWithItsNumberToTheAttemptThatRuns) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::UpdateJobRequest request;
  request.set_id(id);
  request.mutable_update_mask()->add_paths("sample_gradients");
  request.set_sample_gradients(true);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << "nothing runs yet";
  const v1::AttemptKey key = StartOn(worker, id);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).gradient_request_number(), 0u);
  for (const uint64_t number : {1, 2}) {
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).gradient_request_number(), number);
  }
  StartServer();
  EXPECT_EQ(Exchange(worker).attempts(0).gradient_request_number(), 2u) << "it is durable";
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::TRAINER_CRASHED);
  const v1::WorkerDirective next = Exchange(worker);
  ASSERT_EQ(next.attempts_size(), 1);
  EXPECT_EQ(next.attempts(0).key().attempt(), 2);
  EXPECT_EQ(next.attempts(0).gradient_request_number(), 0u) << "the next attempt was not asked";
}

TEST_F(JobCommandsTest, RequestForAProfile_IsPassedOnWithItsNumberToTheAttemptThatRuns) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::UpdateJobRequest request;
  request.set_id(id);
  request.mutable_update_mask()->add_paths("profile_steps");
  absl::StatusOr<JobPtr> result;
  for (const int steps : {0, -1, 101}) {
    request.set_profile_steps(steps);
    coordinator->commands().UpdateJob(request, Into(&result));
    EXPECT_EQ(ReasonOf(result.status()), "INVALID_FIELDS") << steps;
  }
  request.set_profile_steps(100);
  coordinator->commands().UpdateJob(request, Into(&result));
  Pump();
  EXPECT_EQ(ReasonOf(result.status()), "WRONG_STATE") << "nothing runs yet";
  const v1::AttemptKey key = StartOn(worker, id);
  const auto directive = [&] { return coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0); };
  EXPECT_FALSE(directive().has_profile());
  for (const uint64_t number : {1, 2}) {
    coordinator->commands().UpdateJob(request, Into(&result));
    Pump();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(directive().profile().number(), number);
    EXPECT_EQ(directive().profile().num_steps(), 100);
  }
  StartServer();
  EXPECT_EQ(Exchange(worker).attempts(0).profile().number(), 2u) << "it is durable";
  v1::AttemptReport& ended = worker.Has(key, Attempt::ENDED);
  *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
  *ended.mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::TRAINER_CRASHED);
  const v1::WorkerDirective next = Exchange(worker);
  ASSERT_EQ(next.attempts_size(), 1);
  EXPECT_FALSE(next.attempts(0).has_profile()) << "the next attempt was not asked";
}

}  // namespace
}  // namespace ampd::server
