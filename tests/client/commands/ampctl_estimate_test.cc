#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/client/ampctl_fixture.h"
#include "tests/client/compare/planted_runs.h"

namespace ampd::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLargeJob[] = "name: fashion\ndata:\n  batch_size: 500\ntrain: {steps: 200}\n";

TEST_F(Ampctl, EstimateShowsEachPolicyWithItsMemoryItsFitAndItsLargestBatch) {
  Write("job.yaml", kLargeJob);
  const Result result = Run("estimate -f job.yaml --policies fp32,bf16");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("PRECISION +DEVICE +MEMORY +FITS +LARGEST BATCH +EXPECTED TIME\n"));
  for (const char* policy : {"fp32", "bf16"}) {
    EXPECT_THAT(result.out, ContainsRegex(std::string(policy) + " +CPU +3.0 MiB +on some +400 on w1/cpu \\(4.0 GiB\\), "
                                                                "1600 on w2/cpu \\(16.0 GiB\\) +no past run\n"));
  }
  EXPECT_EQ(fake_.jobs.size(), 0) << "nothing was submitted";
}

TEST_F(Ampctl, EstimateComparesTheBatchWithTheMemoryThatTheJobDeclares) {
  Write("job.yaml", std::string(kLargeJob) + "resources: {memory_bytes: 1000}\n");
  EXPECT_THAT(Run("estimate -f job.yaml --policies fp32").out, ContainsRegex("fp32 +CPU +3.0 MiB +no +77 +no past"));
  EXPECT_THAT(Run("estimate -f job.yaml --policies fp32 --set data.batch_size=77").out,
              ContainsRegex("fp32 +CPU +3.0 MiB +yes +77 +no past"));
  fake_.jobs.script()->no_worker_fits = true;
  EXPECT_THAT(Run("estimate -f job.yaml --policies fp32 --set resources.memory_bytes=0").out,
              ContainsRegex("fp32 +CPU +3.0 MiB +no device +- +no past run"));
}

TEST_F(Ampctl, EstimateTakesTheExpectedTimeFromAFinishedJob) {
  Write("job.yaml", "name: new\ndata:\n  batch_size: 32\ntrain: {steps: 1000}\n");
  v1::Job finished = JobOf({.precision = "bf16", .step_seconds = 0.02});
  finished.mutable_spec()->set_name("old");
  fake_.jobs.Put(finished);
  const Result result = Run("estimate -f job.yaml --policies fp32,bf16");
  EXPECT_THAT(result.out, ContainsRegex("fp32 .* +no past run\n"));
  EXPECT_THAT(result.out, ContainsRegex("bf16 .* +20.0 s, as j-bf160 on w1/cpu\n"));
  const Result json = Run("estimate -f job.yaml --policies bf16 -o json");
  EXPECT_THAT(json.out, HasSubstr(R"("expectedTimes":[{"precision":"bf16","deviceKind":"CPU","time":"20s",)"
                                  R"("jobId":"j-bf160"}])"));
}

TEST_F(Ampctl, EstimateShowsWhyAPolicyIsRefusedBesideTheOthers) {
  Write("job.yaml", kLargeJob);
  fake_.jobs.script()->refused_preset = "fp8";
  const Result some = Run("estimate -f job.yaml --policies fp32,fp8");
  EXPECT_EQ(some.exit_code, 0) << some.err;
  EXPECT_THAT(some.out, ContainsRegex("fp8 +- +- +refused +- +-\n"));
  EXPECT_THAT(some.out, ::testing::EndsWith("\nfp8: refused: precision.preset: fp8 does not fit the model\n"));
  EXPECT_THAT(some.out, ContainsRegex("fp32 +CPU +3.0 MiB"));
  const Result all = Run("estimate -f job.yaml --policies fp8");
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_THAT(all.err, HasSubstr("precision.preset: fp8 does not fit the model"));
  EXPECT_THAT(all.out, Not(HasSubstr("fp8")));
}

}  // namespace
}  // namespace ampd::client
