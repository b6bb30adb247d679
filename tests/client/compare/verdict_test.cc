#include "client/compare/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/client/compare/planted_runs.h"

namespace ampd::client {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Verdict VerdictOn(const std::vector<PolicyRuns>& policies, const std::string& baseline = "") {
  return Judge(policies, baseline, {});
}

// Returns the name of the recommended policy; "" if there is none.
std::string Taken(const std::vector<PolicyRuns>& policies, const Verdict& verdict) {
  return verdict.recommended.has_value() ? policies[*verdict.recommended].name : "";
}

std::vector<PlantedJob> Fp32And(const PlantedJob& other) {
  return {{.precision = "fp32", .step_seconds = 0.02}, other};
}

TEST(Judge, APolicyThatIsFasterAndEqualWithinNoise_IsTaken) {
  const auto policies =
      PoliciesOf(Fp32And({.precision = "bf16", .loss = 0.501, .step_seconds = 0.013, .memory_bytes = 60 << 20}));
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "bf16");
  EXPECT_EQ(verdict.policies[1].standing, Standing::kEqual);
  EXPECT_EQ(verdict.choice,
            "Take bf16: its steps take 35% less time than those of fp32 (2.6 s instead of 4.0 s) with 40% less peak "
            "memory.");
  EXPECT_THAT(verdict.reason, HasSubstr("Its results are equal within the noise: training loss +0.0010 (noise "));
  EXPECT_THAT(verdict.basis, HasSubstr("within one run"));
  EXPECT_THAT(verdict.notes, IsEmpty());
  EXPECT_THAT(verdict.warnings, IsEmpty());
}

TEST(Judge, APolicyThatDiverged_IsNeverTaken) {
  for (const bool reports_it : {true, false}) {
    PlantedJob wild = {.precision = "fp16", .step_seconds = 0.001};
    if (reports_it) {
      wild.state = v1::Job::FAILED;
      wild.reason = v1::Reason::LOSS_SCALE_COLLAPSED;
    } else {
      wild.loss = NAN;
    }
    const auto policies = PoliciesOf(Fp32And(wild));
    const Verdict verdict = VerdictOn(policies);
    EXPECT_EQ(Taken(policies, verdict), "fp32");
    EXPECT_EQ(verdict.policies[1].standing, Standing::kDiverged);
    EXPECT_EQ(verdict.reason, "Of these policies, fp16 diverged.");
  }
}

TEST(Judge, APolicyThatDivergedUnderOneOfItsSeeds_IsNeverTaken) {
  std::vector<PlantedJob> jobs;
  for (const uint64_t seed : {1, 2, 3}) {
    jobs.push_back({.precision = "fp32", .seed = seed, .step_seconds = 0.02});
    jobs.push_back({.precision = "fp16", .seed = seed, .step_seconds = 0.01});
  }
  EXPECT_EQ(Taken(PoliciesOf(jobs), VerdictOn(PoliciesOf(jobs))), "fp16");
  jobs[3].state = v1::Job::FAILED;
  jobs[3].reason = v1::Reason::NONFINITE_LOSS;
  const auto policies = PoliciesOf(jobs);
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_THAT(verdict.notes, Contains("fp16 diverged: job j-fp162 is FAILED (NONFINITE_LOSS)."));
}

TEST(Judge, AWildLossThatNeverBecameInfinite_DoesNotHideBehindItsOwnNoise) {
  const auto policies = PoliciesOf(
      Fp32And({.precision = "fp16", .loss = 0.9, .noise = 5, .step_seconds = 0.01, .accuracy = std::nullopt}));
  EXPECT_EQ(Taken(policies, VerdictOn(policies)), "fp32");
}

TEST(Judge, AFasterPolicyThatIsLessAccurate_IsATradeAndNotTaken) {
  const auto policies =
      PoliciesOf(Fp32And({.precision = "apex-o3", .loss = 0.62, .step_seconds = 0.01, .accuracy = 0.86}));
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_EQ(verdict.policies[1].standing, Standing::kLessAccurate);
  ASSERT_EQ(verdict.notes.size(), 1);
  EXPECT_THAT(verdict.notes[0], HasSubstr("apex-o3 is a trade-off: 50% less time than fp32, but less accurate "
                                          "(training loss +0.1200 (noise "));
  EXPECT_THAT(verdict.notes[0], HasSubstr("accuracy -0.0400 (noise "));
  EXPECT_EQ(verdict.choice,
            "Keep fp32: at the same accuracy, no other policy is faster, or needs less memory without being slower.");
}

TEST(Judge, AnAccuracyThatIsWorse_CountsEvenIfTheTrainingLossIsEqual) {
  const auto policies = PoliciesOf(Fp32And({.precision = "fp8", .step_seconds = 0.01, .accuracy = 0.88}));
  EXPECT_EQ(VerdictOn(policies).policies[1].standing, Standing::kLessAccurate);
  EXPECT_EQ(Taken(policies, VerdictOn(policies)), "fp32");
}

TEST(Judge, AnEmulatedPolicy_IsNeverTakenForItsSpeed) {
  const auto policies =
      PoliciesOf(Fp32And({.precision = "fp16", .step_seconds = 0.001, .memory_bytes = 1 << 20, .emulated = true}));
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_FALSE(verdict.policies[1].is_faster);
  EXPECT_EQ(verdict.choice,
            "Keep fp32: at the same accuracy, no other policy that this device does not emulate is faster, or needs "
            "less memory without being slower.");
  EXPECT_EQ(verdict.reason, "Of these policies, fp16 is emulated on this device.");
  EXPECT_THAT(verdict.notes, ElementsAre("fp16 is emulated on this device: its results are as without emulation, but "
                                         "its speed is not."));
}

TEST(Judge, AnotherDevice_IsWarnedAboutAndItsSpeedDoesNotCount) {
  const PlantedJob others[] = {
      {.precision = "bf16", .step_seconds = 0.01, .device_name = "NVIDIA H100"},
      {.precision = "bf16", .step_seconds = 0.01, .num_threads = 4},
  };
  for (const PlantedJob& other : others) {
    const auto policies = PoliciesOf(Fp32And(other));
    const Verdict verdict = VerdictOn(policies);
    EXPECT_EQ(Taken(policies, verdict), "fp32");
    ASSERT_EQ(verdict.warnings.size(), 1);
    EXPECT_THAT(verdict.warnings[0], HasSubstr("did not all run on the same device"));
    EXPECT_EQ(verdict.reason, "Of these policies, bf16 ran on another device.");
  }
}

TEST(Judge, AnUnknownNumberOfThreads_IsNoOtherDevice) {
  const auto policies = PoliciesOf(Fp32And({.precision = "bf16", .step_seconds = 0.01, .num_threads = 0}));
  const Verdict verdict = VerdictOn(policies);
  EXPECT_THAT(verdict.warnings, testing::Not(Contains(HasSubstr("did not all run on the same device"))));
  EXPECT_TRUE(verdict.policies[1].same_device);
}

TEST(Judge, APolicyThatSavesMemoryAndIsNotSlower_IsTakenForItsMemory) {
  const auto policies = PoliciesOf(Fp32And({.precision = "bf16", .step_seconds = 0.02, .memory_bytes = 60 << 20}));
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "bf16");
  EXPECT_EQ(verdict.choice,
            "Take bf16: it needs 40% less peak memory than fp32 (60.0 MiB instead of 100.0 MiB) and is not slower.");
}

TEST(Judge, APolicyThatSavesMemoryButIsSlower_IsNotTaken) {
  const auto policies = PoliciesOf(Fp32And({.precision = "bf16", .step_seconds = 0.03, .memory_bytes = 60 << 20}));
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_EQ(verdict.reason, "Of these policies, bf16 needs 40% less peak memory but takes 50% more time.");
}

TEST(Judge, IfTheTimesAreTooNoisyToSayThatAPolicyIsNotSlower_MemoryIsNoReason) {
  auto policies = PoliciesOf(Fp32And({.precision = "bf16", .step_seconds = 0.019, .memory_bytes = 60 << 20}));
  policies[0].runs[0].pace_noise = 0.4;
  policies[1].runs[0].pace_noise = 0.08;
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_EQ(verdict.reason, "Of these policies, bf16 needs 40% less peak memory but may be slower.");
  EXPECT_THAT(verdict.warnings, ElementsAre("The pace varied by more than 10% within the runs of fp32: the device was "
                                            "probably busy with other work, so the times say little."));
}

TEST(Judge, AGainOfOnePercent_IsNoReasonToChange) {
  const auto policies = PoliciesOf(Fp32And({.precision = "bf16", .step_seconds = 0.0198}));
  EXPECT_EQ(Taken(policies, VerdictOn(policies)), "fp32");
}

TEST(Judge, OfSeveralFasterPolicies_TakesTheFastestThatIsAccurate) {
  const auto policies = PoliciesOf({{.precision = "fp32", .step_seconds = 0.02},
                                    {.precision = "bf16", .step_seconds = 0.012},
                                    {.precision = "fp8", .step_seconds = 0.011},
                                    {.precision = "apex-o3", .loss = 0.8, .step_seconds = 0.005}});
  EXPECT_EQ(Taken(policies, VerdictOn(policies)), "fp8");
}

TEST(Judge, WithRepeats_TheIntervalsAreOverTheSeeds) {
  std::vector<PlantedJob> jobs;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    // bf16's loss is higher by 0.01 under every seed. A single run could not show this, because its noise is 0.2.
    jobs.push_back({.precision = "fp32", .seed = seed, .noise = 0.2, .step_seconds = 0.02});
    jobs.push_back({.precision = "bf16", .seed = seed, .loss = 0.51, .noise = 0.2, .step_seconds = 0.01});
  }
  const auto policies = PoliciesOf(jobs);
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(verdict.policies[1].standing, Standing::kLessAccurate);
  EXPECT_THAT(verdict.basis, HasSubstr("95% t interval over 4 seeds"));
  const auto once = PoliciesOf({jobs[0], jobs[1]});
  EXPECT_EQ(VerdictOn(once).policies[1].standing, Standing::kEqual);
}

TEST(Judge, WithRepeats_OneEvaluationSample_DoesNotDecide) {
  const auto standing = [](double accuracy, int64_t num_samples) {
    std::vector<PlantedJob> jobs;
    for (const uint64_t seed : {1, 2}) {
      jobs.push_back({.precision = "fp32", .seed = seed, .accuracy = 0.9, .num_eval_samples = num_samples});
      jobs.push_back({.precision = "bf16", .seed = seed, .accuracy = accuracy, .num_eval_samples = num_samples});
    }
    const Verdict verdict = VerdictOn(PoliciesOf(jobs));
    EXPECT_THAT(verdict.basis, HasSubstr("For the accuracy, it is at least the sampling error"));
    return verdict.policies[1].standing;
  };
  EXPECT_EQ(standing(0.89, 100), Standing::kEqual);
  EXPECT_EQ(standing(0.91, 100), Standing::kEqual);
  EXPECT_EQ(standing(0.7, 100), Standing::kLessAccurate) << "20 samples are more than chance";
  EXPECT_EQ(standing(0.88, 10'000), Standing::kLessAccurate);
}

TEST(Judge, AFailedBaseline_IsReplacedByTheFirstPolicyThatSucceeded) {
  auto jobs = Fp32And({.precision = "bf16"});
  jobs[0].state = v1::Job::FAILED;
  jobs[0].reason = v1::Reason::OUT_OF_MEMORY;
  const auto policies = PoliciesOf(jobs);
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "bf16");
  EXPECT_THAT(verdict.warnings, Contains("fp32 did not succeed, so the baseline is bf16."));
  EXPECT_THAT(verdict.notes, Contains("fp32 did not succeed: job j-fp320 is FAILED (OUT_OF_MEMORY)."));
}

TEST(Judge, IfNothingSucceeded_NothingIsTaken) {
  auto jobs = Fp32And({.precision = "bf16", .state = v1::Job::CANCELLED, .reason = v1::Reason::USER_CANCELLED});
  jobs[0].state = v1::Job::FAILED;
  jobs[0].reason = v1::Reason::NONFINITE_LOSS;
  const auto policies = PoliciesOf(jobs);
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(verdict.recommended, std::nullopt);
  EXPECT_THAT(verdict.choice, HasSubstr("Take none of these policies"));
  EXPECT_EQ(verdict.reason, "Of these policies, fp32 diverged, and bf16 was cancelled.");
}

TEST(Judge, ABaselineThatTheUserNames_IsTaken) {
  const auto policies = PoliciesOf({{.precision = "fp32", .step_seconds = 0.02},
                                    {.precision = "tf32", .step_seconds = 0.015},
                                    {.precision = "bf16", .step_seconds = 0.015}});
  const Verdict verdict = VerdictOn(policies, "tf32");
  EXPECT_EQ(policies[verdict.baseline.value()].name, "tf32");
  EXPECT_EQ(Taken(policies, verdict), "tf32");
}

TEST(Judge, ABaselineThatOnlyALabelNames_IsTheBaseline) {
  auto policies =
      PoliciesOf({{.precision = "fp32", .step_seconds = 0.02}, {.precision = "bf16", .step_seconds = 0.01}});
  policies[0].name = "fp32 (first)";
  policies[1].name = "file";
  policies[1].labels = {"file", "bf16"};
  EXPECT_EQ(VerdictOn(policies, "bf16").baseline, 1);
  policies[1].labels = {"file", "fp32"};
  EXPECT_EQ(VerdictOn(policies).baseline, 1) << "the default baseline is fp32";
}

TEST(Judge, APolicyThatRaisedItsPrecision_IsNotTaken) {
  auto policies = PoliciesOf(Fp32And({.precision = "fp16", .step_seconds = 0.01}));
  policies[1].runs[0].num_precision_raises = 1;
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_THAT(verdict.notes, Contains(HasSubstr("had to raise its precision")));
}

TEST(Judge, RunsThatStoppedEarly_AreJudgedAsOthersAndNoted) {
  const auto policies =
      PoliciesOf({{.precision = "fp32", .step_seconds = 0.02, .asked_steps = 500},
                  {.precision = "bf16", .step_seconds = 0.013, .num_steps = 180, .asked_steps = 500}});
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(Taken(policies, verdict), "bf16");
  EXPECT_EQ(verdict.policies[1].standing, Standing::kEqual);
  EXPECT_THAT(verdict.notes, ElementsAre("Stopped early by train.early_stopping: fp32 after 200 steps, bf16 after 180 "
                                         "steps. Times and energy are those of the steps that were trained."));
}

TEST(Judge, RunsTooShortToKnow_AreNotCalledEqual) {
  const auto policies =
      PoliciesOf({{.precision = "fp32", .step_seconds = 0.02, .accuracy = std::nullopt, .num_steps = 12},
                  {.precision = "bf16", .step_seconds = 0.01, .accuracy = std::nullopt, .num_steps = 12}});
  const Verdict verdict = VerdictOn(policies);
  EXPECT_EQ(verdict.policies[1].standing, Standing::kUnknown);
  EXPECT_EQ(Taken(policies, verdict), "fp32");
  EXPECT_THAT(verdict.notes, Contains(HasSubstr("Whether bf16 is as accurate as fp32 is not known")));
}

TEST(Judge, JobsThatDifferInMoreThanTheirPolicyOrHaveNoCommonSeed_AreWarnedAbout) {
  const auto policies = PoliciesOf({{.precision = "fp32", .seed = 1}, {.precision = "bf16", .seed = 2}});
  const Verdict verdict = Judge(policies, "", {"data", "optimizer"});
  EXPECT_THAT(verdict.warnings, Contains(HasSubstr("differ in more than their precision: data, optimizer")));
  EXPECT_THAT(verdict.warnings, Contains(HasSubstr("No job of bf16 has the seed of a job of fp32")));
  const auto paired = PoliciesOf({{.precision = "fp32", .seed = 1}, {.precision = "bf16", .seed = 1}});
  EXPECT_THAT(Judge(paired, "", {}).warnings, Not(Contains(HasSubstr("seed"))));
}

}  // namespace
}  // namespace ampd::client
