#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/render/csv.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/render/plot.h"
#include "client/render/shell_word.h"
#include "client/render/table.h"
#include "client/render/watch_screen.h"
#include "client/render/worker_text.h"
#include "client/render/wrap.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

// Returns a job at step 60 of 100. Its loss scale was lowered after step 20 and raised after step 40.
WatchedJob HalfDone() {
  WatchedJob watched;
  v1::WatchJobResponse message;
  v1::Job* job = message.mutable_snapshot();
  job->set_id("j-abcdefghijklmnop");
  job->mutable_spec()->set_name("fashion");
  job->set_state(v1::Job::RUNNING);
  job->mutable_progress()->set_total_steps(100);
  job->mutable_start_time()->set_seconds(1);
  v1::Attempt* attempt = job->add_attempts();
  attempt->set_number(1);
  attempt->set_worker("w1");
  attempt->set_precision("fp16");
  attempt->set_emulated(true);
  watched.Add(message);
  v1::StepColumns* steps = message.mutable_steps();
  for (int step = 1; step <= 60; ++step) {
    steps->add_step(step);
    steps->add_loss(2.3F / static_cast<float>(1 + step * 0.1F));
    steps->add_loss_scale(step <= 20 ? 65536 : step <= 40 ? 32768 : 65536);
    steps->add_skipped(step == 20);
    steps->add_time_unix_micros(1'000'000 + step * 500'000);
    v1::Progress& progress = *message.mutable_progress();
    progress.set_step(step);
    progress.set_loss(steps->loss(0));
    progress.set_grad_norm(1);
    progress.set_learning_rate(1e-3);
    progress.set_samples_per_second(1200);
    progress.set_memory_allocated_bytes(64 << 20);
    progress.set_memory_peak_bytes(80 << 20);
    progress.set_skipped_steps(step >= 20 ? 1 : 0);
    watched.Add(message);
    steps->Clear();
  }
  message.clear_progress();
  message.mutable_event()->set_kind(v1::Event::OVERFLOW);
  message.mutable_event()->set_step(20);
  message.mutable_event()->set_message("conv1.weight");
  watched.Add(message);
  return watched;
}

// Checks that the screen has the size in `options`, and returns it as text with readable escape sequences.
std::string ScreenText(const WatchedJob& watched, const ScreenOptions& options) {
  const std::string screen = RenderWatchScreen(watched, options);
  const std::vector<std::string> rows = absl::StrSplit(absl::StripSuffix(screen, "\n"), '\n');
  EXPECT_LE(rows.size(), static_cast<size_t>(options.height));
  for (const std::string& row : rows) {
    EXPECT_LE(DisplayWidth(row), options.width) << row;
  }
  return absl::StrCat("==== ", options.width, "x", options.height, options.ascii ? ", ASCII" : ", UTF-8",
                      options.palette.on() ? ", colours" : "", "\n", absl::StrReplaceAll(screen, {{"\x1b", "\\e"}}));
}

TEST(Render, TheWatchScreenInEverySizeAlphabetAndPalette) {
  const WatchedJob watched = HalfDone();
  EXPECT_EQ(watched.progress().skipped_steps(), 1);
  EXPECT_EQ(watched.progress().total_steps(), 100) << "the record has it, and progress beside points lacks it";
  EXPECT_EQ(watched.TimeLeft(), absl::Seconds(20));
  std::string all;
  for (const auto& [width, height] : {std::pair(120, 40), std::pair(80, 24), std::pair(20, 5)}) {
    for (const bool ascii : {true, false}) {
      for (const bool colours : {false, true}) {
        all += ScreenText(watched, {width, height, ascii, Palette(colours), "q: quit"});
      }
    }
  }
  absl::StrAppend(&all, "==== the line for an output that is not a terminal\n", RenderWatchLine(watched));
  ExpectGolden("tests/golden/client/watch_screen.txt", all + "\n");
}

TEST(Render, TheScreenFitsItsHeightAndWidth) {
  WatchedJob watched = HalfDone();
  watched.set_waiting(std::string(200, 'w'));
  for (int height = 1; height < 60; ++height) {
    for (const int width : {1, 7, 20, 40, 60, 79, 80, 200}) {
      const ScreenOptions options{width, height, false, Palette(true), "Ctrl-C detaches; the job continues"};
      const std::string screen = RenderWatchScreen(watched, options);
      EXPECT_LE(std::count(screen.begin(), screen.end(), '\n'), height) << width << "x" << height;
      for (const auto row : absl::StrSplit(screen, '\n')) {
        EXPECT_LE(DisplayWidth({row.data(), row.size()}), width) << width << "x" << height << ": " << row;
      }
    }
  }
}

TEST(Render, ATinyScreenShowsTheProgress_RatherThanAllAboutTheAttempt) {
  const std::string screen = RenderWatchScreen(HalfDone(), {20, 5, true, Palette(false), "Ctrl-C detaches"});
  EXPECT_THAT(screen, testing::StartsWith("RUNNING  "));
  EXPECT_THAT(screen, testing::HasSubstr("\nstep 60/100"));
  EXPECT_THAT(screen, testing::HasSubstr("\nloss "));
}

TEST(Render, AConstantCurveHasItsLabelBesideTheLine) {
  EXPECT_EQ(PlotCurve({{1, 65536, false}, {9, 65536, false}}, {20, 5, true, true}),
            "        |         \n"
            "        |         \n"
            "   2^16 |*********\n"
            "        |         \n"
            "        |         \n"
            "   step +--------- 9\n");
}

v1::WatchJobResponse Steps(int first, int last, int skipped) {
  v1::WatchJobResponse message;
  v1::StepColumns* steps = message.mutable_steps();
  for (int step = first; step <= last; ++step) {
    steps->add_step(step);
    steps->add_loss(1);
    steps->add_loss_scale(1024);
    steps->add_skipped(step == skipped);
    steps->add_time_unix_micros(step * 1'000'000LL);
  }
  return message;
}

void AddPhases(v1::Progress* progress) {
  progress->add_phases()->set_name("discriminator");
  progress->mutable_phases(0)->set_loss(1);
  progress->add_phases()->set_name("generator");
  progress->mutable_phases(1)->set_loss(2.5);
}

TEST(Render, LossesOfLaterPhases_AreShownBesideTheFirst) {
  WatchedJob watched = HalfDone();
  EXPECT_THAT(RenderWatchLine(watched), testing::Not(testing::HasSubstr("generator")));
  v1::WatchJobResponse message = Steps(61, 61, 0);
  message.mutable_progress()->set_step(61);
  message.mutable_progress()->set_loss(1);
  AddPhases(message.mutable_progress());
  watched.Add(message);
  EXPECT_THAT(RenderWatchLine(watched), testing::HasSubstr("loss 1, generator 2.5"));
  EXPECT_THAT(RenderWatchScreen(watched, {78, 28, true, Palette(false)}), testing::HasSubstr("loss 1, generator 2.5"));
  v1::Job job;
  job.mutable_progress()->set_step(3);
  job.mutable_progress()->set_loss(0.5);
  AddPhases(job.mutable_progress());
  EXPECT_THAT(RenderJob(job, JobTextOptions()), testing::HasSubstr("loss 0.5, generator loss 2.5"));
}

TEST(Render, AnEvaluation_ShowsItsMetricsBesideTheLoss) {
  const auto shown = [](const v1::EvalPoint& eval) {
    WatchedJob watched = HalfDone();
    v1::WatchJobResponse message;
    *message.mutable_eval() = eval;
    watched.Add(message);
    return RenderWatchScreen(watched, {100, 28, true, Palette(false)});
  };
  v1::EvalPoint eval;
  eval.set_step(60);
  eval.set_loss(0.25);
  EXPECT_THAT(shown(eval), testing::HasSubstr("eval at step 60: loss 0.25"));
  eval.set_accuracy(0.5);
  EXPECT_THAT(shown(eval), testing::HasSubstr("eval at step 60: accuracy 0.5, loss 0.25"));
  eval.set_f1(0.375);
  EXPECT_THAT(shown(eval), testing::HasSubstr("accuracy 0.5, F1 0.375, loss 0.25")) << "of five classes";
  eval.set_top5_accuracy(0.75);
  EXPECT_THAT(shown(eval), testing::HasSubstr("eval at step 60: accuracy 0.5, top-5 0.75, F1 0.375, loss 0.25"));
  eval.set_perplexity(17);
  EXPECT_THAT(shown(eval), testing::HasSubstr("eval at step 60: perplexity 17, loss 0.25")) << "of a language model";
}

v1::WatchJobResponse Snapshot(int64_t step, int64_t skipped) {
  v1::WatchJobResponse message;
  v1::Job* job = message.mutable_snapshot();
  job->set_state(v1::Job::RUNNING);
  job->mutable_progress()->set_step(step);
  job->mutable_progress()->set_total_steps(1000);
  job->mutable_spec()->mutable_data()->set_batch_size(32);
  job->mutable_progress()->set_skipped_steps(skipped);
  return message;
}

TEST(WatchedJob, ProgressIsTheServersWhateverIsReplayed) {
  WatchedJob watched;
  watched.Add(Snapshot(100, 3));
  watched.Add(Steps(1, 100, 50));
  EXPECT_EQ(watched.progress().skipped_steps(), 3) << "the history is replayed";
  v1::WatchJobResponse live = Steps(101, 120, 110);
  live.mutable_progress()->set_step(120);
  live.mutable_progress()->set_skipped_steps(4);
  watched.Add(live);
  EXPECT_EQ(watched.progress().skipped_steps(), 4);
  EXPECT_EQ(watched.losses().size(), 120u);
  live = Steps(106, 108, 0);
  live.mutable_progress()->set_step(108);
  live.mutable_progress()->set_skipped_steps(3);
  watched.Add(live);
  EXPECT_EQ(watched.progress().skipped_steps(), 3) << "the skipped step was rolled back";
  EXPECT_EQ(watched.losses().size(), 108u) << "and so were the points";
}

TEST(WatchedJob, ThePaceIsThatOfTheLastHalfMinuteWithoutPauses) {
  WatchedJob watched;
  watched.Add(Snapshot(0, 0));
  const auto live = [](v1::WatchJobResponse message) {
    message.mutable_progress()->set_step(message.steps().step(message.steps().step_size() - 1));
    return message;
  };
  for (int step = 1; step <= 100; ++step) {
    watched.Add(live(Steps(step, step, 0)));
  }
  EXPECT_EQ(watched.TimeLeft(), absl::Seconds(900));
  EXPECT_DOUBLE_EQ(watched.samples_per_second(), 32) << "a batch a second";
  v1::WatchJobResponse later = Steps(101, 101, 0);
  later.mutable_steps()->set_time_unix_micros(0, 5'000'000'000);
  watched.Add(live(later));
  EXPECT_EQ(watched.TimeLeft(), absl::InfiniteDuration()) << "the first step after a pause says nothing";
  later.mutable_steps()->set_step(0, 111);
  later.mutable_steps()->set_time_unix_micros(0, 5'001'000'000);
  watched.Add(live(later));
  EXPECT_EQ(watched.TimeLeft(), absl::Milliseconds(88'900)) << "ten steps a second since";
}

TEST(Render, AnUnderflowNamesTheWorstModulesWithTheirShares) {
  v1::Event event;
  event.set_kind(v1::Event::UNDERFLOW);
  event.set_step(100);
  event.set_message("gradients underflow in 3 parameters, most in a.weight");
  const std::string text = "underflow at step 100: gradients underflow in 3 parameters, most in a.weight";
  EXPECT_EQ(RenderEvent(event), text);
  (*event.mutable_attributes())["modules"] = "a 0.900";
  EXPECT_EQ(RenderEvent(event), text) << "the message has named it";
  (*event.mutable_attributes())["modules"] = "a 0.900, b\033[31m 0.200";
  EXPECT_EQ(RenderEvent(event), text + "; shares by module: a 0.900, b\\x1b[31m 0.200");
  event.set_kind(v1::Event::WARNING);
  EXPECT_EQ(RenderEvent(event), "warning at step 100: gradients underflow in 3 parameters, most in a.weight");
}

TEST(Render, WaitingPausedAndFinishedJobsSayWhy) {
  WatchedJob watched;
  v1::WatchJobResponse message;
  v1::Job* job = message.mutable_snapshot();
  job->set_id("j-abcdefghijklmnop");
  job->mutable_spec()->set_name("fashion");
  job->mutable_spec()->mutable_train()->set_steps(50);
  job->set_state(v1::Job::QUEUED);
  watched.Add(message);
  watched.set_waiting("no worker is attached");
  std::string all = RenderWatchLine(watched) + "\n" + RenderWatchScreen(watched, {60, 20, true, Palette(false)});
  job->set_state(v1::Job::PAUSED);
  watched.Add(message);
  absl::StrAppend(&all, RenderWatchLine(watched), "\n", RenderWatchScreen(watched, {60, 20, true, Palette(false)}));
  job->set_state(v1::Job::FAILED);
  job->set_reason(v1::Reason::DATA_ERROR);
  job->set_message("attempt 1: train.gz: No such file or directory");
  absl::StrAppend(&all, RenderEnd(*job), "\n");
  job->clear_message();
  job->set_state(v1::Job::SUCCEEDED);
  job->set_reason(v1::Reason::SUCCEEDED_NORMALLY);
  v1::FinalMetrics* metrics = job->add_attempts()->mutable_outcome()->mutable_final_metrics();
  metrics->set_eval_accuracy(0.8976);
  metrics->set_eval_loss(0.281);
  metrics->set_train_loss(0.25);
  metrics->set_steps_per_second(171.7);
  metrics->set_skipped_steps(3);
  job->mutable_attempts(0)->mutable_outcome()->set_last_step(50);
  absl::StrAppend(&all, RenderEnd(*job), "\n");
  metrics->clear_eval_accuracy();
  metrics->set_eval_perplexity(17.25);
  absl::StrAppend(&all, RenderEnd(*job), "\n");
  metrics->clear_eval_perplexity();  // a regression has neither accuracy nor perplexity
  absl::StrAppend(&all, RenderEnd(*job), "\n");
  ExpectGolden("tests/golden/client/watch_states.txt", all);
}

google::protobuf::Timestamp At(int64_t seconds) {
  google::protobuf::Timestamp time;
  time.set_seconds(seconds);
  return time;
}

TEST(JobText, AJobWithoutAStepShowsNoNumbers) {
  v1::Job job;
  job.set_id("j-abcdefghijklmnop");
  job.mutable_spec()->set_name("fashion");
  job.mutable_spec()->mutable_precision()->set_preset("bf16");
  job.mutable_spec()->set_priority(3);
  job.set_state(v1::Job::QUEUED);
  *job.mutable_create_time() = At(1'000'000);
  const JobTextOptions options{absl::FromUnixSeconds(1'000'060), absl::UTCTimeZone()};
  EXPECT_EQ(
      RenderTable(JobHeadings(true), {JobRow(job, true, options)}, true),
      "ID                  NAME     STATE   STEP  LOSS  PRECISION  AGE    REASON  WORKER  TENANT  PRIORITY  SCALE  "
      "SKIPPED  PEAK MEMORY  MESSAGE\n"
      "j-abcdefghijklmnop  fashion  QUEUED  0     -     bf16       1m00s  -       -       -       3         -      -   "
      "  "
      "   -\n");
  EXPECT_EQ(RenderJob(job, options),
            "job         j-abcdefghijklmnop  fashion\n"
            "state       QUEUED\n"
            "created     1970-01-12 13:46:40 UTC (1m00s ago)\n"
            "precision   bf16\n"
            "progress    no step yet\n"
            "priority    3\n");
}

TEST(RenderJob, ValuesOfNewerServersAreShownAsNumbers) {
  v1::Job job;
  job.set_id("j-a");
  job.set_state(static_cast<v1::Job::State>(99));
  job.set_reason(static_cast<v1::Reason::Code>(98));
  EXPECT_THAT(RenderJob(job, JobTextOptions()), testing::HasSubstr("state       99 (98)\n"));
  v1::Event event;
  event.set_kind(static_cast<v1::Event::Kind>(97));
  event.set_message("of the future");
  EXPECT_EQ(RenderEvent(event), "97: of the future");
}

TEST(RenderJob, WideTextNamesTheTrace_IfItIsOne) {
  v1::Job job;
  job.set_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  JobTextOptions options;
  options.wide = true;
  EXPECT_THAT(RenderJob(job, options), testing::HasSubstr("\ntrace       4bf92f3577b34da6a3ce929d0e0e4736\n"));
  job.set_traceparent("00-\x1b[2J");
  EXPECT_THAT(RenderJob(job, options), testing::Not(testing::HasSubstr("trace")));
}

TEST(Csv, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(CsvLine({"a", "", "b c", "d,e", "f\"g", "h\ni"}), "a,,b c,\"d,e\",\"f\"\"g\",\"h\ni\"\n");
  EXPECT_EQ(CsvLine({}), "\n");
}

TEST(Csv, ATextThatASpreadsheetWouldCompute_GetsAnApostrophe_ButANumberDoesNot) {
  EXPECT_EQ(CsvLine({"=1+1", "+x", "-x", "@x", "\tx"}), "'=1+1,'+x,'-x,'@x,'\tx\n");
  EXPECT_EQ(CsvLine({"-1.5e-05", "+2", "-inf", "a=1"}), "-1.5e-05,+2,-inf,a=1\n");
  EXPECT_EQ(CsvLine({"=HYPERLINK(\"x\")"}), "\"'=HYPERLINK(\"\"x\"\")\"\n");
}

TEST(Csv, NumbersKeepTheirDigits_AndTimesAreUtc) {
  EXPECT_EQ(CsvNumber(0.1), "0.1");
  EXPECT_EQ(CsvNumber(0.1F), "0.1") << "not 0.10000000149";
  EXPECT_EQ(CsvNumber(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(CsvNumber(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(CsvTime(true, At(1'000'000)), "1970-01-12T13:46:40Z");
  EXPECT_EQ(CsvTime(false, At(1'000'000)), "");
  EXPECT_EQ(CsvTime(int64_t{1'500'000}), "1970-01-01T00:00:01.5Z");
}

TEST(Table, PrintedInParts_KeepsItsColumns) {
  std::vector<int> widths;
  EXPECT_EQ(RenderRows({"A", "B"}, {{"xx", "y"}}, &widths), "A   B\nxx  y\n");
  EXPECT_EQ(RenderRows({}, {{"z", "y"}}, &widths), "z   y\n") << "as wide as the part before";
  EXPECT_EQ(RenderRows({}, {{"zzzz", "y"}}, &widths), "zzzz  y\n");
}

TEST(Table, OnANarrowTerminal_BreaksCellsOfWords_AndCutsLongWords) {
  EXPECT_EQ(RenderTable({"PRESET", "WHAT IT DOES"}, {{"fp32", "computes everything in float32"}}, true, 26),
            "PRESET  WHAT IT DOES\n"
            "fp32    computes\n"
            "        everything in\n"
            "        float32\n");
  EXPECT_EQ(RenderTable({"ID", "NAME", "STEP"}, {{"j-a", "a-name-that-is-very-long", "5/5"}}, true, 30),
            "ID   NAME                 STEP\n"
            "j-a  a-name-that-is-ve..  5/5\n")
      << "nothing is cut that fits";
}

TEST(Table, ThatIsTooWideForALine_ContinuesBelow_UnlessNothingIsThere) {
  EXPECT_EQ(
      RenderTable({"ID", "STATE", "REASON"}, {{"j-a", "FAILED", "DATA_ERROR"}, {"j-b", "RUNNING", "-"}}, true, 20),
      "ID   STATE\n"
      "    REASON\n"
      "j-a  FAILED\n"
      "    DATA_ERROR\n"
      "j-b  RUNNING\n");
}

TEST(Table, ACellThatBeginsWithManyBlanks_FitsItsColumn) {
  const std::string tensor = std::string(70, ' ') + "aaaa bbbb";
  EXPECT_EQ(RenderTable({"TENSOR", "FORMAT"}, {{tensor, "F32"}}, true, 40),
            absl::StrCat("TENSOR                            FORMAT\n", std::string(28, ' '), "aaaa  F32\nbbbb\n"));
  EXPECT_EQ(RenderTable({"NAME", "BYTES"}, {{"a b" + std::string(20, ' '), "1"}}, true, 20),
            "NAME           BYTES\na b            1\n")
      << "blanks at the end of a cell add no line";
}

TEST(Table, OfAnyCells_FitsTheTerminal) {
  constexpr int kEveryColumnFits = 40;
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const auto cell = [&random] {
    const std::vector<std::string> parts = {" ",  "  ", std::string(20, ' '), "a", "long-word-without-blanks-in-it",
                                            "of", "ö",  std::string(70, ' '), ""};
    std::string text;
    for (size_t i = random() % 6; i > 0; --i) {
      text += parts[random() % parts.size()];
    }
    return random() % 8 == 0 ? Palette(true).Red(text) : text;
  };
  for (int width = 1; width <= 200; ++width) {
    for (int n = 0; n < 20; ++n) {
      std::vector<std::vector<std::string>> rows(1 + random() % 4);
      for (std::vector<std::string>& row : rows) {
        row = {cell(), cell(), cell()};
      }
      const std::string text = RenderTable({"NAME", "STATE", "WHAT IT IS"}, rows, n % 2 == 0, width);
      for (const absl::string_view line : absl::StrSplit(text, '\n')) {
        EXPECT_LE(DisplayWidth({line.data(), line.size()}), std::max(width, kEveryColumnFits))
            << "seed " << kSeed << ", table " << n << " of width " << width << ":\n"
            << text;
      }
    }
  }
}

TEST(ShellWord, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(ShellWord("a/b-c_d.e:7070,x@y%z+1=2"), "a/b-c_d.e:7070,x@y%z+1=2");
  EXPECT_EQ(ShellWord("ä"), "ä");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("r;v2.html"), "'r;v2.html'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord("*"), "'*'");
  EXPECT_EQ(ShellWord("~"), "'~'");
  EXPECT_EQ(ShellPath("-x.yaml"), "./-x.yaml");
  EXPECT_EQ(ShellPath("-a b"), "'./-a b'");
  EXPECT_EQ(ShellPath("job.yaml"), "job.yaml");
}

TEST(Wrap, BreaksLinesBetweenWords_AndIndentsTheirContinuation) {
  EXPECT_EQ(WrapLines("state       FAILED: the loss is not finite\n", 30),
            "state       FAILED: the loss\n"
            "            is not finite\n");
  EXPECT_EQ(WrapLines("error: one two three four\n  try: something else here\n", 20),
            "error: one two three\n"
            "  four\n"
            "  try: something\n"
            "    else here\n");
  EXPECT_EQ(WrapLines("a/path/that/is/longer/than/a/line", 10), "a/path/that/is/longer/than/a/line");
  EXPECT_EQ(WrapLines("anything at all", 0), "anything at all");
  EXPECT_EQ(WrapLines("\x1b[31mred words\x1b[0m here", 14), "\x1b[31mred words\x1b[0m here") << "colours have no width";
}

TEST(Wrap, KeepsACommandWhole_OrContinuesItAsAShellReadsIt) {
  EXPECT_EQ(WrapLines("to check the file: ampctl job submit -f job.yaml --dry-run", 45),
            "to check the file:\n"
            "  ampctl job submit -f job.yaml --dry-run");
  EXPECT_EQ(WrapLines("  ampctl job list --filter 'state=running AND name=x' --sort loss", 46),
            "  ampctl job list --filter \\\n"
            "      'state=running AND name=x' --sort loss");
}

TEST(Wrap, BreaksACommandWithinATextAsAShellReadsIt) {
  EXPECT_EQ(
      WrapLines("to see the verdict: ampctl compare --label c-12345678 --policies fp32,bf16 --html 'a b.html'", 50),
      "to see the verdict:\n"
      "  ampctl compare --label c-12345678 --policies \\\n"
      "      fp32,bf16 --html 'a b.html'");
  EXPECT_EQ(WrapLines("to compare: ampctl compare --policies fp32,bf16 -f job.yaml, or ask", 50),
            "to compare:\n"
            "  ampctl compare --policies fp32,bf16 -f job.yaml,\n"
            "  or ask")
      << "a comma within a word does not end the command";
  EXPECT_EQ(WrapLines("error: ampctl has no command that trains a model", 30),
            "error: ampctl has no command\n"
            "  that trains a model")
      << "a sentence about ampctl";
}

TEST(Wrap, ACommandWithinAText_CanBeCopiedAtAnyWidth) {
  for (const std::string command :
       {"ampctl --address prod:7070 --tenant vision job delete --yes resnet 'a  b; c' 'it'\\''s (x), y'",
        "ampctl job list -q --filter 'state=failed OR name=x, y' | xargs -r ampctl job delete --yes",
        "ampctl compare -f job.yaml --policies fp32,bf16,fp16 --set 'labels={a.b: \"x, c: y\"}'",
        "ampctl job submit -f a\\ b.yaml --name $(date +%s) --follow"}) {
    for (const std::string& text :
         {"error: no; use --yes: " + command, "correct it, then " + command, "  watch:   " + command,
          "try: see it (to end it: " + command + "); to list all: ampctl job list",
          "to see it: ampctl job show j-a; " + command + "; then look", command}) {
      for (int width = 10; width <= 200; ++width) {
        const std::string copied = std::regex_replace(WrapLines(text, width), std::regex(" \\\\\n +"), " ");
        EXPECT_THAT(copied, testing::HasSubstr(command)) << width << "\n" << WrapLines(text, width);
      }
    }
  }
}

TEST(JobText, AQueuedJobShowsWhyItWaits) {
  v1::Job job;
  job.set_id("j-a");
  job.set_state(v1::Job::QUEUED);
  job.mutable_pending()->set_reason(v1::PendingReason::NO_WORKERS);
  job.mutable_pending()->set_message("no worker has ever reported a device");
  EXPECT_EQ(ReasonWord(job), "NO_WORKERS");
  EXPECT_EQ(JobRow(job, false, JobTextOptions()).back(), "NO_WORKERS");
  EXPECT_THAT(RenderJob(job, JobTextOptions()),
              testing::HasSubstr("\nwaits       NO_WORKERS: no worker has ever reported a device\n"));
  EXPECT_EQ(JobCsvRow(job).size(), JobCsvHeadings().size());
  EXPECT_EQ(JobRow(job, true, JobTextOptions()).size(), JobHeadings(true).size());
}

TEST(WorkerText, CsvRows_HaveACellForEachHeading) {
  v1::Worker worker;
  worker.set_name("w1");
  EXPECT_EQ(WorkerCsvRows(worker)[0].size(), WorkerCsvHeadings().size());
  worker.add_devices()->set_id("cpu");
  worker.add_devices()->set_id("gpu0");
  EXPECT_EQ(WorkerCsvRows(worker).size(), 2u);
  EXPECT_EQ(WorkerCsvRows(worker)[1].size(), WorkerCsvHeadings().size());
}

TEST(JobText, AFinishedJobShowsItsAttemptsTimesAndFinalMetrics) {
  v1::Job job;
  job.set_id("j-abcdefghijklmnop");
  job.set_cloned_from("j-bbbbbbbbbbbbbbbb");
  job.mutable_spec()->set_name("fashion");
  job.mutable_spec()->set_max_retries(2);
  job.mutable_spec()->mutable_train()->set_steps(1875);
  job.set_state(v1::Job::SUCCEEDED);
  job.set_reason(v1::Reason::SUCCEEDED_NORMALLY);
  *job.mutable_create_time() = At(1'000'000);
  *job.mutable_start_time() = At(1'000'005);
  *job.mutable_end_time() = At(1'000'125);
  job.set_num_retries_used(1);
  job.mutable_progress()->set_step(1875);
  job.mutable_progress()->set_loss(0.25);
  job.mutable_progress()->set_loss_scale(65536);
  job.mutable_progress()->set_skipped_steps(3);
  job.mutable_progress()->set_memory_peak_bytes(64 << 20);
  job.mutable_progress()->set_memory_predicted_bytes(61 << 20);
  for (int number = 1; number <= 2; ++number) {
    v1::Attempt* attempt = job.add_attempts();
    attempt->set_number(number);
    attempt->set_worker("w1");
    attempt->add_devices("cpu");
    attempt->set_precision("fp16");
    attempt->set_emulated(true);
    attempt->set_from_step(number == 1 ? 0 : 600);
    attempt->mutable_outcome()->set_kind(number == 1 ? v1::Outcome::FAILED : v1::Outcome::FINISHED);
    attempt->mutable_outcome()->set_reason(number == 1 ? v1::Reason::TRAINER_CRASHED : v1::Reason::SUCCEEDED_NORMALLY);
    attempt->mutable_outcome()->set_message(number == 1 ? "signal 9" : "");
    attempt->mutable_outcome()->set_last_step(number == 1 ? 777 : 1875);
  }
  v1::FinalMetrics* metrics = job.mutable_attempts(1)->mutable_outcome()->mutable_final_metrics();
  metrics->set_train_loss(0.25);
  metrics->set_eval_loss(0.28);
  metrics->set_eval_accuracy(0.9);
  metrics->set_eval_top5_accuracy(0.984375);
  metrics->set_eval_f1(0.875);
  metrics->set_steps_per_second(12.5);
  metrics->set_final_loss_scale(65536);
  metrics->set_skipped_steps(3);
  job.add_checkpoints()->set_step(1875);
  job.mutable_checkpoints(0)->set_size_bytes(4096);
  ExpectGolden("tests/golden/client/job_show.txt",
               RenderJob(job, {absl::FromUnixSeconds(1'003'600), absl::UTCTimeZone()}));
}

// Returns a job that stopped early at step 400 of 1000.
v1::Job StoppedEarly() {
  v1::Job job;
  job.set_id("j-abcdefghijklmnop");
  job.mutable_spec()->set_name("fashion");
  job.mutable_spec()->mutable_train()->set_steps(1000);
  job.mutable_spec()->mutable_train()->mutable_early_stopping()->set_patience(3);
  job.set_state(v1::Job::SUCCEEDED);
  job.set_reason(v1::Reason::SUCCEEDED_NORMALLY);
  job.set_message(
      "training stopped early at step 400 of 1000: eval_loss has not fallen below its best value (0.4 at step 250) in "
      "the last 3 evaluations");
  job.mutable_progress()->set_step(400);
  job.mutable_progress()->set_loss(0.25);
  job.add_attempts()->mutable_outcome()->set_kind(v1::Outcome::FINISHED);
  job.mutable_attempts(0)->mutable_outcome()->set_last_step(400);
  return job;
}

TEST(JobText, AJobThatStoppedEarly_SaysSoWithTheStepsOfBoth) {
  const v1::Job job = StoppedEarly();
  EXPECT_TRUE(HasStoppedEarly(job));
  const std::string text = RenderJob(job, JobTextOptions());
  EXPECT_THAT(text, testing::HasSubstr("state       SUCCEEDED: training stopped early at step 400 of 1000: eval_loss"));
  EXPECT_THAT(text, testing::HasSubstr("progress    step 400/1,000 (stopped early), loss 0.25"));
  EXPECT_EQ(JobRow(job, false, JobTextOptions())[3], "400/1000");
  EXPECT_THAT(RenderEnd(job), testing::HasSubstr("SUCCEEDED: training stopped early at step 400 of 1000"));

  v1::WatchJobResponse message;
  *message.mutable_final() = job;
  WatchedJob watched;
  watched.Add(message);
  EXPECT_THAT(RenderWatchLine(watched), testing::HasSubstr("step 400/1,000 (stopped early)"));
  const std::string screen = RenderWatchScreen(watched, {100, 20, true, Palette(false)});
  EXPECT_THAT(screen, testing::HasSubstr("step 400/1,000 (stopped early)"));
  EXPECT_THAT(screen, testing::HasSubstr("training stopped early at step 400 of 1000"));
  EXPECT_THAT(screen, testing::HasSubstr("40%")) << "the bar shows what was trained";

  v1::Job whole = job;
  whole.mutable_attempts(0)->mutable_outcome()->set_last_step(1000);
  EXPECT_FALSE(HasStoppedEarly(whole));
  v1::Job without = job;
  without.mutable_spec()->mutable_train()->clear_early_stopping();
  EXPECT_FALSE(HasStoppedEarly(without));
}

TEST(JobText, AnEvaluation_ShowsItsMetricsBesideTheLoss) {
  v1::Job job;
  v1::Progress& progress = *job.mutable_progress();
  progress.set_step(60);
  progress.set_loss(0.5);
  progress.set_eval_loss(0.25);
  EXPECT_THAT(RenderJob(job, JobTextOptions()), testing::HasSubstr("\neval        loss 0.25\n"));
  progress.set_eval_accuracy(0.5);
  progress.set_eval_f1(0.375);
  EXPECT_THAT(RenderJob(job, JobTextOptions()), testing::HasSubstr("eval        accuracy 0.5, F1 0.375, loss 0.25\n"));
  progress.set_eval_top5_accuracy(0.75);
  EXPECT_THAT(RenderJob(job, JobTextOptions()), testing::HasSubstr("accuracy 0.5, top-5 0.75, F1 0.375, loss 0.25\n"));
}

TEST(JobText, WhatIsNotKnownOfAJobThatWasStoppedLongAgoIsNoNumber) {
  v1::Job job;
  job.set_id("j-a");
  job.set_state(v1::Job::CANCELLED);
  job.mutable_progress()->set_step(5032);
  const JobTextOptions options = {absl::FromUnixSeconds(60), absl::UTCTimeZone()};
  EXPECT_THAT(RenderJob(job, options), testing::HasSubstr("progress    step 5,032\n"));
  EXPECT_EQ(JobRow(job, true, options)[4], "-") << "the loss";
  EXPECT_EQ(JobRow(job, true, options)[11], "-") << "the loss scale";
}

// The server makes the progress of such a job from its outcome, which has no numbers of the last step.
TEST(RenderWatch, WhatIsNotKnownOfAJobThatEndedLongAgoIsLeftOut) {
  v1::WatchJobResponse message;
  v1::Job& job = *message.mutable_final();
  job.set_state(v1::Job::SUCCEEDED);
  job.mutable_spec()->mutable_data()->set_batch_size(64);
  *job.mutable_start_time() = At(1'000'000);
  *job.mutable_end_time() = At(1'000'000);
  job.mutable_end_time()->set_nanos(440'000'000);
  job.mutable_progress()->set_step(20);
  job.mutable_progress()->set_loss(0.5);
  job.mutable_progress()->set_loss_scale(1);
  job.mutable_progress()->set_steps_per_second(45.25);
  job.mutable_progress()->set_memory_peak_bytes(96LL << 20);
  WatchedJob watched;
  watched.Add(message);
  EXPECT_EQ(RenderWatchLine(watched),
            "SUCCEEDED  step 20  loss 0.5  loss scale 1  skipped 0  2,896 samples/s  peak memory 96.0 MiB  took 440ms");
  const std::string screen = RenderWatchScreen(watched, {100, 20, true, Palette(false)});
  EXPECT_THAT(screen, testing::HasSubstr("\nloss 0.5   2,896 samples/s\npeak memory 96.0 MiB\n"));

  message.mutable_final()->mutable_progress()->clear_steps_per_second();
  message.mutable_final()->mutable_progress()->clear_memory_peak_bytes();
  watched.Add(message);
  EXPECT_EQ(RenderWatchLine(watched), "SUCCEEDED  step 20  loss 0.5  loss scale 1  skipped 0  took 440ms");
  const std::string wide =
      RenderJob(job, {absl::FromUnixSeconds(1'000'060), absl::UTCTimeZone(), Palette(false), true});
  EXPECT_THAT(wide, testing::HasSubstr("pace        0 steps/s\n"));
  EXPECT_THAT(wide, testing::Not(testing::HasSubstr("samples/s")));
}

TEST(JobText, ARunningJobSaysHowLongAgoItsFirstStepWas) {
  v1::Job job;
  job.set_state(v1::Job::RUNNING);
  *job.mutable_create_time() = At(1'000'000);
  *job.mutable_start_time() = At(1'000'005);
  EXPECT_THAT(RenderJob(job, {absl::FromUnixSeconds(1'000'008), absl::UTCTimeZone()}),
              testing::HasSubstr("(8s ago), first step after 5s, 3s ago\n"));
}

TEST(JobText, WideAddsTimesPaceLabelsAndWhereCheckpointsAre) {
  v1::Job job;
  job.set_state(v1::Job::RUNNING);
  job.set_etag("7");
  (*job.mutable_spec()->mutable_labels())["team"] = "vision";
  job.mutable_progress()->set_step(1);
  job.mutable_progress()->set_learning_rate(0.5);
  v1::Attempt* attempt = job.add_attempts();
  attempt->set_number(1);
  attempt->set_precision_reason("asked for");
  *attempt->mutable_assign_time() = At(1'000'000);
  *attempt->mutable_end_time() = At(1'000'060);
  attempt->mutable_outcome()->set_kind(v1::Outcome::FAILED);
  attempt->mutable_outcome()->set_signal(9);
  job.add_attempts();  // an attempt whose fields are all empty
  v1::Checkpoint* checkpoint = job.add_checkpoints();
  checkpoint->set_attempt(1);
  checkpoint->set_path("j-a/1/step-5");
  checkpoint->set_worker("w1");
  checkpoint->set_local(true);
  const std::string wide =
      RenderJob(job, {absl::FromUnixSeconds(1'000'060), absl::UTCTimeZone(), Palette(false), true});
  for (const char* line : {"labels      team=vision\n", "etag        7\n", "learning rate 0.5",
                           "            assigned 1970-01-12 13:46:40 UTC, ended 1970-01-12 13:47:40 UTC, by signal 9, ",
                           ", precision: asked for\n", ", attempt 1, j-a/1/step-5 on w1, state -\n"}) {
    EXPECT_THAT(wide, testing::HasSubstr(line));
    EXPECT_THAT(RenderJob(job, {absl::FromUnixSeconds(1'000'060), absl::UTCTimeZone()}),
                testing::Not(testing::HasSubstr(line)));
  }
  EXPECT_THAT(wide, testing::Not(testing::HasSubstr("            \n")));
}

TEST(WorkerText, Wide_HasARowForEachDeviceWithItsCapabilities) {
  v1::Worker worker;
  worker.set_name("w1");
  worker.set_state(v1::Worker::READY);
  worker.set_version("1.2.3");
  *worker.mutable_last_report_time() = At(1'000'000);
  v1::Device* gpu = worker.add_devices();
  gpu->set_id("gpu0");
  gpu->set_name("H200");
  gpu->set_kind(v1::Device::GPU);
  gpu->set_capability_major(9);
  gpu->set_memory_total_bytes(int64_t{140} << 30);
  gpu->set_memory_free_bytes(int64_t{139} << 30);
  v1::Device* cpu = worker.add_devices();
  cpu->set_id("cpu");
  cpu->set_kind(v1::Device::CPU);
  cpu->add_instruction_sets("avx2");
  cpu->add_instruction_sets("amx_bf16");
  cpu->set_num_threads(2);
  cpu->set_unhealthy(true);
  const absl::Time now = absl::FromUnixSeconds(1'000'003);
  EXPECT_EQ(
      RenderTable(WorkerHeadings(true), WorkerRows(worker, true, now), true),
      "NAME  STATE  JOBS  LAST REPORT  VERSION  METRICS  DEVICE  PRODUCT  CAPABILITY     THREADS  FREE MEMORY  "
      "MEMORY     HEALTH\n"
      "w1    READY  0     3s ago       1.2.3    -        gpu0    H200     9.0            -        139.0 GiB    "
      "140.0 GiB  ok\n"
      "w1    READY  0     3s ago       1.2.3    -        cpu     -        avx2 amx_bf16  2        0 B          0 B  "
      "      unhealthy\n");
  EXPECT_EQ(WorkerRows(worker, false, now).size(), 1);
  worker.clear_devices();
  EXPECT_EQ(WorkerRows(worker, true, now).size(), 1) << "a worker without devices is a worker";
}

TEST(Render, ClippingKeepsColoursWholeAndCountsCodePoints) {
  EXPECT_EQ(ClipTo("short", 5), "short");
  EXPECT_EQ(ClipTo("longer", 5), "lon..");
  EXPECT_EQ(ClipTo("\x1b[31mlonger\x1b[0m", 5), "\x1b[31mlon..\x1b[0m");
  EXPECT_EQ(ClipTo("äöüäöü", 5), "äöü..");
  EXPECT_EQ(ClipTo("longer", 1), ".");
}

TEST(Render, CurvesLeaveOutWhatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(PlotCurve({}, {40, 4, true, false}), testing::HasSubstr("nothing yet"));
  EXPECT_THAT(PlotCurve({{1, inf, false}, {2, -inf, true}}, {40, 4, true, false}),
              testing::HasSubstr("no finite value to show"));
  EXPECT_THAT(PlotCurve({{1, 0, false}}, {40, 4, true, true}), testing::HasSubstr("no finite value to show"));
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
  EXPECT_EQ(Printable("a\x1b[2Jb\n"), "a\\x1b[2Jb\\n");
  EXPECT_EQ(Printable("\xc2\x9b[2J\xc2\x80\xc2\xa0\xc3\x9b\xc2"), "\\u009b[2J\\u0080\\u00a0\xc3\x9b\\xc2");
}

// A text with every kind of character that could control a terminal.
constexpr char kHostile[] = "a\x1b[31m\u009b2J\u202eb\u2066\u200f\u061c\u2028\x7f\r\nc";

TEST(Printable, EscapesWhateverControlsATerminal) {
  EXPECT_EQ(Printable(kHostile), "a\\x1b[31m\\u009b2J\\u202eb\\u2066\\u200f\\u061c\\u2028\\u007f\\r\\nc");
  EXPECT_EQ(Printable("na\u00efve \u4e16\U0001f600"), "na\u00efve \u4e16\U0001f600");
  EXPECT_EQ(Printable("caf\xe9"), "caf\\xe9");
}

TEST(Printable, LinesKeepBreaksTabsAndOurColours) {
  const Palette palette(true);
  EXPECT_EQ(ColouredLines(palette.Red("x") + "\n\ty\n"), palette.Red("x") + "\n\ty\n");
  EXPECT_EQ(PrintableLines(palette.Red("x") + "\n\ty\n"), "\\x1b[31mx\\x1b[0m\n\ty\n");
  EXPECT_EQ(ColouredLines("\x1b[2J\x1b[1;31m\x1b]0;t\x07\r"), "\\x1b[2J\\x1b[1;31m\\x1b]0;t\\x07\\r");
  EXPECT_EQ(ColouredLine(palette.Bold("x") + "\ny"), palette.Bold("x") + "\\ny");
  EXPECT_EQ(ColouredLines("\x1b"), "\\x1b");
}

TEST(Table, ACellCannotBreakItsLine) {
  EXPECT_EQ(RenderTable({"A", "B"}, {{"x\ny", "\x1b[2J"}}, true), "A     B\nx\\ny  \\x1b[2J\n");
}

TEST(LogCleaner, CleansALogThatIsCutAnywhere) {
  const std::string log = std::string("step 1\r\n\t\u00e4\u4e16\U0001f600 50%\r60%\n") + kHostile + "\xff end\n";
  LogCleaner whole;
  std::string cleaned = whole.Clean(log);
  cleaned += whole.Finish();
  EXPECT_EQ(cleaned, absl::StrCat("step 1\n\t\u00e4\u4e16\U0001f600 50%\\r60%\n",
                                  "a\\x1b[31m\\u009b2J\\u202eb\\u2066\\u200f\\u061c\\u2028\\u007f\nc\\xff end\n"));
  for (size_t first = 0; first <= log.size(); ++first) {
    LogCleaner cut;
    std::string text;
    for (const std::string& piece :
         {log.substr(0, first), log.substr(first, 1), log.substr(std::min(first + 1, log.size()))}) {
      text += cut.Clean(piece);
    }
    EXPECT_EQ(text + cut.Finish(), cleaned) << first;
  }
}

TEST(LogCleaner, ShowsWhatIsIncompleteAtTheEnd) {
  LogCleaner cleaner;
  EXPECT_EQ(cleaner.Clean("a\xe4\xb8"), "a");
  EXPECT_EQ(cleaner.Finish(), "\\xe4\\xb8");
  EXPECT_EQ(cleaner.Finish(), "");
  EXPECT_EQ(cleaner.Clean("b\r"), "b");
  EXPECT_EQ(cleaner.Finish(), "\\r");
}

TEST(Timestamps, NameTheirZone) {
  absl::TimeZone berlin;
  ASSERT_TRUE(absl::LoadTimeZone("Europe/Berlin", &berlin));
  const absl::Time winter = absl::FromUnixSeconds(1'769'900'399);
  EXPECT_EQ(FormatTimestamp(winter, absl::UTCTimeZone()), "2026-01-31 22:59:59 UTC");
  EXPECT_EQ(FormatTimestamp(winter, berlin), "2026-01-31 23:59:59 CET");
  EXPECT_EQ(FormatTimestamp(absl::ToUnixMicros(winter + absl::Hours(24 * 180)), berlin), "2026-07-31 00:59:59 CEST");
}

}  // namespace
}  // namespace ampd::client
