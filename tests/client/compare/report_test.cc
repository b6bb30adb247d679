#include "client/compare/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/compare/planted_runs.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns a comparison of fp32, the baseline, with three policies: bf16 should be recommended, fp16 is emulated, and
// apex-o3 is faster, but less accurate.
Comparison FourPolicies() {
  Comparison comparison = {.id = "c-1a2b3c4d", .model = "fashion", .rates = {.price_per_device_hour = 2.5}};
  comparison.policies =
      PoliciesOf({{.precision = "fp32", .step_seconds = 0.02},
                  {.precision = "bf16", .loss = 0.501, .step_seconds = 0.013, .memory_bytes = 60 << 20},
                  {.precision = "fp16", .step_seconds = 0.09, .emulated = true},
                  {.precision = "apex-o3", .loss = 0.62, .step_seconds = 0.01, .accuracy = 0.86}});
  comparison.policies[0].largest_batch = 4096;
  comparison.policies[1].largest_batch = 8192;
  comparison.policies[2].runs[0].num_skipped = 3;
  comparison.verdict = Judge(comparison.policies, "", {});
  return comparison;
}

TEST(Report, TextMarkdownJsonAndHtmlAreThoseOfTheGoldenFiles) {
  const Comparison comparison = FourPolicies();
  ExpectGolden("tests/golden/client/compare.txt", TextReport(comparison));
  ExpectGolden("tests/golden/client/compare.md", MarkdownReport(comparison));
  ExpectGolden("tests/golden/client/compare.json", JsonReport(comparison, /*indented=*/true));
  ExpectGolden("tests/golden/client/compare.html", HtmlReport(comparison));
}

TEST(Report, YamlHasTheNamesInSnakeCase) {
  const std::string yaml = YamlReport(FourPolicies());
  EXPECT_THAT(yaml, HasSubstr("\nrecommended: bf16\n"));
  EXPECT_THAT(yaml, HasSubstr("peak_memory_bytes: 62914560\n"));
  EXPECT_THAT(yaml, HasSubstr("job_id: j-bf160\n"));
}

TEST(Report, WhatWasNotMeasured_IsNamedWithTheReason) {
  Comparison comparison = FourPolicies();
  comparison.rates.carbon_grams_per_kwh = 400;
  EXPECT_THAT(NotMeasured(comparison), Contains(HasSubstr("energy (")));
  EXPECT_THAT(NotMeasured(comparison), Contains(HasSubstr("--carbon has no effect")));
  EXPECT_THAT(TextReport(comparison), Not(HasSubstr("CO2 of a run")));
  for (PolicyRuns& policy : comparison.policies) {
    policy.runs[0].energy_joules = 3600;
  }
  EXPECT_THAT(NotMeasured(comparison), Not(Contains(HasSubstr("energy ("))));
  EXPECT_THAT(TextReport(comparison), ContainsRegex("CO2 of a run +0.4 g"));
}

TEST(Report, AFactThatOnlySomePoliciesHave_IsNotGuessedForTheOthers) {
  EXPECT_THAT(TextReport(FourPolicies()),
              ContainsRegex("largest batch +4,096 +8,192  \\+100% +not known +not known\n"));
}

TEST(Report, WhatAllPoliciesShare_IsInTheHeadlineAndNotInTheTable) {
  Comparison comparison = FourPolicies();
  EXPECT_EQ(SubjectText(comparison), "Comparison c-1a2b3c4d: 1 run of each policy on w1/cpu, AMD EPYC 9R14, 2 threads");
  EXPECT_THAT(TextReport(comparison), Not(ContainsRegex("\ndevice ")));
  comparison.policies[1].runs[0].device = "w2/cpu";
  EXPECT_EQ(SubjectText(comparison), "Comparison c-1a2b3c4d: 1 run of each policy on different devices");
  EXPECT_THAT(TextReport(comparison), ContainsRegex("\ndevice +w1/cpu, AMD EPYC 9R14, 2 threads +w2/cpu, 2 threads"));
}

TEST(Report, SeveralSeedsOfAPolicy_AreRowsOfTheirOwn) {
  Comparison comparison = {.model = "fashion"};
  comparison.policies = PoliciesOf({{.precision = "fp32", .seed = 1}, {.precision = "fp32", .seed = 2}});
  comparison.verdict = Judge(comparison.policies, "", {});
  const auto rows = RunRows(comparison);
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0][0], "fp32 seed 1");
  EXPECT_EQ(rows[1][0], "fp32 seed 2");
}

TEST(Report, HostileNames_AreTextInEveryFormat) {
  constexpr char kHostile[] = "</title><script>x</script>|**b**\x1b[2J";
  Comparison comparison = FourPolicies();
  comparison.model = kHostile;
  comparison.policies[1].name = kHostile;
  comparison.policies[1].runs[0].device = kHostile;
  comparison.verdict = Judge(comparison.policies, "", {});
  const std::string html = HtmlReport(comparison);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("&lt;/title&gt;&lt;script&gt;x"));
  const std::string markdown = MarkdownReport(comparison);
  EXPECT_THAT(markdown, HasSubstr("&lt;script&gt;x&lt;/script&gt;\\|\\*\\*b\\*\\*"));
  EXPECT_THAT(markdown, Not(HasSubstr("<script")));
  for (const std::string& text : {html, markdown, TextReport(comparison), JsonReport(comparison, false)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  }
}

TEST(Report, Html_IsOnePageWithoutScriptsOrAddresses) {
  const std::string html = HtmlReport(FourPolicies());
  EXPECT_THAT(html, Not(ContainsRegex("<script|<link|<img|@import|src=|href=|url\\(|http")));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
}

}  // namespace
}  // namespace ampd::client
