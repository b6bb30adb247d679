#include "client/jobfile/violations.h"

#include <gtest/gtest.h>

#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

TEST(Violations, OfTheStaticScale_AreAtItsLine) {
  const JobFile file = ReadJobFile("precision: {loss_scale: {static: {scale: 0}}}\n", "job.yaml", {});
  const auto problems =
      PlaceViolations({{"precision.loss_scale.static.scale", "is 0; must be above 0"}}, file, "job.yaml");
  EXPECT_EQ(problems[0].mark.ToString(), "job.yaml:1:35");
  EXPECT_EQ(problems[0].message, "precision.loss_scale.static.scale: is 0; must be above 0");
}

TEST(Violations, SuggestThePresetOrTheValueWithoutQuotes) {
  const JobFile file = ReadJobFile("precision: {preset: BF16}\n", "job.yaml", {"name=\"x\""});
  const auto problems = PlaceViolations(
      {{"precision.preset", "is \"BF16\"; presets are fp32, bf16"}, {"name", "is \"\"x\"\"; must be a name"}}, file,
      "job.yaml");
  EXPECT_EQ(problems[0].nearest, "bf16");
  EXPECT_EQ(problems[1].nearest, "x");
  EXPECT_EQ(NearestPreset("bfloat16"), "bf16");
  EXPECT_EQ(NearestPreset("nothing-like-it"), "");
}

TEST(Violations, AreErrorsAtTheLineOfTheirFieldOrOfTheOneAround) {
  const JobFile file = ReadJobFile("name: x\nmodel:\n  lenet: {num_classes: 10, widths: [1, 0]}\n", "job.yaml", {});
  const auto problems = PlaceViolations({{"model.lenet.widths[1]", "0 is below 1"},
                                         {"model.lenet.hidden", "must be set"},
                                         {"optimizer", "must be set"},
                                         {"spec.name", "too short"}},
                                        file, "job.yaml");
  EXPECT_EQ(problems[0].mark.ToString(), "job.yaml:3:40");
  EXPECT_EQ(problems[0].message, "model.lenet.widths[1]: 0 is below 1");
  EXPECT_EQ(PlaceViolations({{"model.lenet.hidden", "is 0; must be 1 to 9"}}, file, "job.yaml")[0].message,
            "model.lenet.hidden: is not set; it must be 1 to 9");
  EXPECT_EQ(PlaceViolations({{"model.lenet.hidden", "is 7; must be 1 to 5"}}, file, "job.yaml")[0].message,
            "model.lenet.hidden: is 7; must be 1 to 5 (the file does not set it)");
  EXPECT_EQ(problems[1].mark.ToString(), "job.yaml:3:3");
  EXPECT_EQ(problems[2].mark.ToString(), "job.yaml");
  EXPECT_EQ(problems[3].mark.ToString(), "job.yaml:1:1");
}

}  // namespace
}  // namespace ampd::client
