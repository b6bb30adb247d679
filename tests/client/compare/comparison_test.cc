#include "client/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>

#include "tests/client/compare/planted_runs.h"

namespace ampd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> NamesOf(const std::vector<PolicyRuns>& policies) {
  std::vector<std::string> names;
  for (const PolicyRuns& policy : policies) {
    names.push_back(policy.name);
  }
  return names;
}

TEST(GroupByPolicy, JobsThatDifferInTheirSeeds_AreOnePolicy) {
  const auto policies = PoliciesOf({{.precision = "fp32", .seed = 1},
                                    {.precision = "bf16", .seed = 1},
                                    {.precision = "fp32", .seed = 2},
                                    {.precision = "bf16", .seed = 2}});
  EXPECT_THAT(NamesOf(policies), ElementsAre("fp32", "bf16"));
  EXPECT_EQ(policies[0].runs.size(), 2);
  EXPECT_EQ(policies[1].runs.size(), 2);
}

TEST(GroupByPolicy, JobsThatDifferInMore_AreSeveralPoliciesWithDifferentNames) {
  std::vector<RunRecord> records(3, RecordOf({.precision = "bf16"}));
  records[1].job.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  records[2].job.mutable_spec()->mutable_precision()->set_allow_unsafe(true);
  std::vector<RunFacts> runs;
  std::vector<v1::JobSpec> specs;
  for (const RunRecord& record : records) {
    runs.push_back(FactsOf(record));
    specs.push_back(record.job.spec());
  }
  EXPECT_THAT(NamesOf(GroupByPolicy(runs, specs)), ElementsAre("bf16", "bf16 (fashion-bf16)", "bf16 (fashion-bf16 2)"));
}

TEST(GroupByPolicy, TheLabelNamesThePolicy) {
  RunRecord record = RecordOf({.precision = "bf16"});
  (*record.job.mutable_spec()->mutable_labels())[kPolicyLabel] = "file";
  EXPECT_THAT(NamesOf(GroupByPolicy({FactsOf(record)}, {record.job.spec()})), ElementsAre("file"));
}

TEST(GroupByPolicy, APolicyWithSeveralLabels_IsFoundByEachOfThem) {
  std::vector<RunFacts> runs;
  std::vector<v1::JobSpec> specs;
  for (const auto& [precision, label] : {std::pair("bf16", "file"), std::pair("bf16", "bf16"), std::pair("fp32", "")}) {
    RunRecord record = RecordOf({.precision = precision});
    if (*label != '\0') {
      (*record.job.mutable_spec()->mutable_labels())[kPolicyLabel] = label;
    }
    runs.push_back(FactsOf(record));
    specs.push_back(record.job.spec());
  }
  EXPECT_TRUE(HaveOnePolicy(specs[0], specs[1]));
  EXPECT_FALSE(HaveOnePolicy(specs[0], specs[2]));
  const std::vector<PolicyRuns> policies = GroupByPolicy(runs, specs);
  EXPECT_THAT(NamesOf(policies), ElementsAre("file", "fp32"));
  EXPECT_EQ(PlaceOfPolicy(policies, "file"), 0);
  EXPECT_EQ(PlaceOfPolicy(policies, "bf16"), 0);
  EXPECT_EQ(PlaceOfPolicy(policies, "fp32"), 1);
  EXPECT_EQ(PlaceOfPolicy(policies, "fp16"), std::nullopt);
}

TEST(PartsThatDiffer, NamesOnlyWhatMakesJobsIncomparable) {
  v1::JobSpec one = JobOf({.precision = "fp32"}).spec();
  v1::JobSpec other = JobOf({.precision = "bf16", .seed = 7}).spec();
  other.set_queue("night");
  other.mutable_resources()->set_worker("w2");
  EXPECT_THAT(PartsThatDiffer({one, other}), IsEmpty());
  other.mutable_data()->set_batch_size(64);
  other.mutable_schedule()->set_warmup_steps(5);
  EXPECT_THAT(PartsThatDiffer({one, other}), ElementsAre("data", "schedule"));
}

TEST(DifferenceBetween, RunsWithTheSameSeeds_ArePaired) {
  // The losses differ much more between seeds than between policies.
  const auto policies = PoliciesOf({{.precision = "fp32", .seed = 1, .loss = 0.5},
                                    {.precision = "fp32", .seed = 2, .loss = 0.7},
                                    {.precision = "fp32", .seed = 3, .loss = 0.9},
                                    {.precision = "bf16", .seed = 1, .loss = 0.52},
                                    {.precision = "bf16", .seed = 2, .loss = 0.7205},
                                    {.precision = "bf16", .seed = 3, .loss = 0.9195}});
  const PolicyDifference difference = DifferenceBetween(policies[1], policies[0]);
  EXPECT_EQ(difference.num_pairs, 3);
  EXPECT_NEAR(difference.train_loss->value, 0.02, 1e-3);
  EXPECT_LT(difference.train_loss->half_width.value(), 0.005);
  EXPECT_TRUE(difference.train_loss->exceeds_noise());
}

TEST(DifferenceBetween, RunsOfOneSeed_AreOneRepeat) {
  const auto policies = PoliciesOf({{.precision = "fp32", .seed = 1},
                                    {.precision = "fp32", .seed = 1},
                                    {.precision = "bf16", .seed = 1},
                                    {.precision = "bf16", .seed = 1}});
  EXPECT_EQ(DifferenceBetween(policies[1], policies[0]).num_pairs, 1);
}

TEST(DifferenceBetween, WithoutRepeats_TheNoiseIsThatOfTheBaselinesTail) {
  const auto policies =
      PoliciesOf({{.precision = "fp32", .loss = 0.5, .noise = 0.02}, {.precision = "bf16", .loss = 0.6, .noise = 3}});
  const PolicyDifference difference = DifferenceBetween(policies[1], policies[0]);
  const double noise = policies[0].runs[0].loss_tail->noise;
  EXPECT_NEAR(difference.train_loss->half_width.value(), 2 * std::sqrt(2.0) * noise, 1e-12)
      << "the policy's own noise does not hide its loss";
  // 0.003 is the standard error of an accuracy of 0.9 that was measured with 10,000 samples.
  EXPECT_NEAR(difference.eval_accuracy->half_width.value(), 2 * std::sqrt(2.0) * 0.003, 1e-9);
  EXPECT_EQ(difference.eval_loss->half_width, std::nullopt);
}

TEST(DifferenceBetween, TheNoiseOfAnAccuracy_IsAtLeastItsSamplingError) {
  const auto half_width = [](double first, double second) {
    const auto policies = PoliciesOf({{.precision = "fp32", .seed = 1, .accuracy = 0.90, .num_eval_samples = 100},
                                      {.precision = "fp32", .seed = 2, .accuracy = 0.90, .num_eval_samples = 100},
                                      {.precision = "bf16", .seed = 1, .accuracy = first, .num_eval_samples = 100},
                                      {.precision = "bf16", .seed = 2, .accuracy = second, .num_eval_samples = 100}});
    return DifferenceBetween(policies[1], policies[0]).eval_accuracy->half_width.value();
  };
  // The standard errors of the accuracies 0.9 and 0.89, which were measured with 100 samples each.
  const double errors = std::hypot(std::sqrt(0.9 * 0.1 / 100), std::sqrt(0.89 * 0.11 / 100));
  EXPECT_NEAR(half_width(0.89, 0.89), 2 * errors / std::sqrt(2.0), 1e-6) << "both pairs differ by the same sample";
  EXPECT_GT(half_width(0.84, 0.94), 0.5) << "the t interval over the pairs is wider";
}

TEST(DifferenceBetween, LossesThatAreBothNearZero_AreEqual) {
  const auto policies = PoliciesOf({{.precision = "fp32", .loss = 1e-6, .noise = 1e-7},
                                    {.precision = "bf16", .loss = 5e-5, .noise = 1e-7},
                                    {.precision = "fp16", .loss = 5e-3, .noise = 1e-7}});
  EXPECT_FALSE(DifferenceBetween(policies[1], policies[0]).train_loss->exceeds_noise());
  EXPECT_TRUE(DifferenceBetween(policies[2], policies[0]).train_loss->exceeds_noise());
}

TEST(DifferenceBetween, TimeAndMemoryAreSharesOfTheBaseline) {
  const auto policies = PoliciesOf({{.precision = "fp32", .step_seconds = 0.02, .memory_bytes = 200 << 20},
                                    {.precision = "bf16", .step_seconds = 0.015, .memory_bytes = 150 << 20}});
  const PolicyDifference difference = DifferenceBetween(policies[1], policies[0]);
  EXPECT_NEAR(difference.step_time->value, -0.25, 1e-9);
  EXPECT_NEAR(difference.peak_memory.value(), -0.25, 1e-9);
}

TEST(PolicyRuns, OnlyRunsThatSucceededCount) {
  const auto policies =
      PoliciesOf({{.seed = 1, .step_seconds = 0.01},
                  {.seed = 2, .step_seconds = 0.05, .state = v1::Job::FAILED, .reason = v1::Reason::WORKER_LOST}});
  EXPECT_NEAR(policies[0].MeanOf(&RunFacts::step_seconds).value(), 2, 1e-9);
}

TEST(PolicyRuns, CostsOnlyWhatIsKnown) {
  PolicyRuns policy = PoliciesOf({{.step_seconds = 3600.0 / 200}})[0];
  EXPECT_EQ(policy.Cost({}), std::nullopt);
  EXPECT_NEAR(policy.Cost({.price_per_device_hour = 2.5}).value(), 2.5, 1e-9);
  EXPECT_EQ(policy.Cost({.price_per_kwh = 0.3}), std::nullopt) << "the energy was not measured";
  EXPECT_EQ(policy.CarbonGrams({.carbon_grams_per_kwh = 400}), std::nullopt);
  policy.runs[0].energy_joules = 7.2e6;
  policy.runs[0].num_devices = 2;
  EXPECT_NEAR(policy.Cost({.price_per_device_hour = 2.5, .price_per_kwh = 0.3}).value(), 5 + 0.6, 1e-9);
  EXPECT_NEAR(policy.CarbonGrams({.carbon_grams_per_kwh = 400}).value(), 800, 1e-9);
}

}  // namespace
}  // namespace ampd::client
