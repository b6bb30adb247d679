#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "client/render/plot.h"
#include "client/render/table.h"
#include "client/render/watch_screen.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

// A job at step 60 of 100 whose scale backs off at step 20 and grows at 40.
WatchedJob HalfDone() {
  WatchedJob watched;
  v1::WatchJobResponse message;
  v1::Job* job = message.mutable_snapshot();
  job->set_id("j-abcdefghijklmnop");
  job->mutable_spec()->set_name("fashion");
  job->set_state(v1::Job::RUNNING);
  job->mutable_progress()->set_total_steps(100);
  watched.Add(message);
  v1::StepColumns* steps = message.mutable_steps();
  for (int step = 1; step <= 60; ++step) {
    steps->add_step(step);
    steps->add_loss(2.3F / static_cast<float>(1 + step * 0.1F));
    steps->add_grad_norm(1);
    steps->add_loss_scale(step <= 20 ? 65536 : step <= 40 ? 32768 : 65536);
    steps->add_skipped(step == 20);
    steps->add_learning_rate(1e-3);
    steps->add_samples_per_second(1200);
    steps->add_memory_allocated_bytes(64 << 20);
    steps->add_memory_peak_bytes(80 << 20);
    steps->add_time_unix_micros(1'000'000 + step * 500'000);
    watched.Add(message);
    steps->Clear();
  }
  message.mutable_event()->set_kind(v1::Event::OVERFLOW);
  message.mutable_event()->set_step(20);
  message.mutable_event()->set_message("conv1.weight");
  watched.Add(message);
  return watched;
}

TEST(Render, TheWatchScreenInBothAlphabetsAndSmall) {
  const WatchedJob watched = HalfDone();
  EXPECT_EQ(watched.skipped(), 1);
  EXPECT_EQ(watched.TimeLeft(), absl::Seconds(20));
  std::string all;
  for (const bool ascii : {true, false}) {
    absl::StrAppend(&all, RenderWatchScreen(watched, {78, 28, ascii, Palette(false)}), "====\n");
  }
  absl::StrAppend(&all, RenderWatchScreen(watched, {50, 12, true, Palette(false)}), "====\n", RenderWatchLine(watched));
  ExpectGolden("tests/golden/client/watch_screen.txt", all + "\n");
}

TEST(Render, TheScreenFitsItsHeight) {
  const WatchedJob watched = HalfDone();
  for (int height = 8; height < 60; ++height) {
    const std::string screen = RenderWatchScreen(watched, {80, height, true, Palette(false)});
    EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), height) << height;
  }
}

TEST(Render, CurvesLeaveOutWhatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(PlotCurve({}, {40, 4, true, false}), testing::HasSubstr("nothing yet"));
  EXPECT_THAT(PlotCurve({{1, inf, false}, {2, -inf, true}}, {40, 4, true, false}), testing::HasSubstr("nothing yet"));
  EXPECT_THAT(PlotCurve({{1, 0, false}}, {40, 4, true, true}), testing::HasSubstr("nothing yet"));
  EXPECT_EQ(Sparkline({1, inf, 3, 2}, 4, true), "_ #=");
}

TEST(Render, BarsTablesAndNumbers) {
  EXPECT_EQ(ProgressBar(0.5, 17, true), "[#####-----]  50%");
  EXPECT_EQ(ProgressBar(7, 17, true), "[##########] 100%");
  EXPECT_EQ(ProgressBar(-1, 17, true), "[..........]   -%");
  EXPECT_EQ(RenderTable({"A", "LONG"}, {{"1", "2"}, {"333", "4"}}, true), "A    LONG\n1    2\n333  4\n");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatSpan(absl::Seconds(3725)), "1h02m");
  EXPECT_EQ(Printable("a\x1b[2Jb\n"), "a?[2Jb?");
}

}  // namespace
}  // namespace ampd::client
