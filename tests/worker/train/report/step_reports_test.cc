#include "worker/train/report/step_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/train/report/telemetry_outbox.h"

namespace ampd::train {
namespace {

using Fault = amp::ActivationFault;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Fault FaultOf(Fault::Kind kind, const std::string& module) {
  return {.kind = kind, .module = module, .op = "aten.mul.Tensor", .value = "product", .dtype = "float16", .share = 1};
}

// A run whose forward passes are reported. `num_searches` counts the searches for a fault.
class ReportedRun {
 public:
  // A step whose forward pass was sampled.
  void Sample(float loss, const std::optional<Fault>& fault) {
    amp::StepResult result;
    result.loss = loss;
    result.sampled_activations = true;
    result.activation_fault = fault;
    Report(result, fault);
  }
  // A step whose forward pass was not sampled. `fault`: what a search finds.
  void Step(float loss, const std::optional<Fault>& fault = std::nullopt) {
    amp::StepResult result;
    result.loss = loss;
    Report(result, fault);
  }

  // The reported faults, each as "STEP:KIND MODULE".
  std::vector<std::string> Events() const {
    std::vector<std::string> texts;
    const v1::TelemetryBatch batch = outbox_.Read(0, size_t{1} << 20).value();
    for (const v1::Event& event : batch.events()) {
      texts.push_back(absl::StrCat(event.step(), ":", std::string(event.attributes().at("kind")), " ",
                                   std::string(event.attributes().at("module"))));
    }
    return texts;
  }
  std::string FaultModule() const {
    return reports.activation_fault().has_value() ? reports.activation_fault()->module : "";
  }

 private:
  void Report(const amp::StepResult& result, const std::optional<Fault>& fault) {
    const absl::Status status = reports.ReportActivations(++step_, result, [&] {
      ++num_searches;
      return fault;
    });
    EXPECT_TRUE(status.ok()) << status;
  }

  TelemetryOutbox outbox_{{.spill_path = testing::TempDir() + "/step-reports"}};
  TelemetryWriter telemetry_{outbox_, /*attempt=*/1};
  int64_t step_ = 0;

 public:
  StepReports reports{telemetry_};
  int num_searches = 0;
};

TEST(StepReports, ANonFiniteLossIsExplainedAlthoughAnotherFaultWasReported) {
  ReportedRun run;
  run.Sample(1, FaultOf(Fault::Kind::kVanished, "scale"));
  run.Sample(1, FaultOf(Fault::Kind::kVanished, "scale"));
  run.Step(1);
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "head"));
  EXPECT_EQ(run.FaultModule(), "head");
  EXPECT_THAT(run.Events(), ElementsAre("1:VANISHED scale", "4:NOT_FINITE head"));
}

TEST(StepReports, SeveralNonFiniteLossesInARowAreSearchedOnce) {
  ReportedRun run;
  for (int i = 0; i < 5; ++i) {
    run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, i == 0 ? "head" : "later"));
  }
  EXPECT_EQ(run.num_searches, 1);
  EXPECT_EQ(run.FaultModule(), "head");
  EXPECT_THAT(run.Events(), ElementsAre("1:NOT_FINITE head"));
}

TEST(StepReports, ALaterNonFiniteLossIsSearchedForTheVerdictButNotReportedAgain) {
  ReportedRun run;
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "head"));
  run.Step(1);
  EXPECT_EQ(run.FaultModule(), "");
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "body"));
  EXPECT_EQ(run.FaultModule(), "body");
  EXPECT_THAT(run.Events(), ElementsAre("1:NOT_FINITE head"));
  run.Sample(1, std::nullopt);
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "body"));
  EXPECT_THAT(run.Events(), ElementsAre("1:NOT_FINITE head", "5:NOT_FINITE body"));
}

TEST(StepReports, AfterARestoreANonFiniteLossIsSearchedAgainAndReportedOnlyIfItWasNot) {
  ReportedRun run;
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "head"));
  run.reports.Restore({.not_finite = true});
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "head"));
  EXPECT_EQ(run.num_searches, 2);
  EXPECT_EQ(run.FaultModule(), "head");
  EXPECT_THAT(run.Events(), ElementsAre("1:NOT_FINITE head"));
  run.reports.Restore({.activations = true});
  run.Step(kNan, FaultOf(Fault::Kind::kNotFinite, "head"));
  EXPECT_THAT(run.Events(), ElementsAre("1:NOT_FINITE head", "3:NOT_FINITE head"));
}

TEST(StepReports, FiniteLossesAreNotSearched) {
  ReportedRun run;
  run.Step(1, FaultOf(Fault::Kind::kNotFinite, "head"));
  EXPECT_EQ(run.num_searches, 0);
  EXPECT_THAT(run.Events(), IsEmpty());
}

}  // namespace
}  // namespace ampd::train
