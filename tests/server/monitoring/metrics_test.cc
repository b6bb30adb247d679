#include "server/monitoring/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "base/random.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/log_counter.h"
#include "server/monitoring/snapshot_collector.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

v1::Job RunningJob(const std::string& id) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::Job::RUNNING);
  job.mutable_spec()->set_name("fashion-bf16");
  job.mutable_spec()->mutable_model()->mutable_lenet();
  job.mutable_spec()->mutable_train()->set_steps(1000);
  job.mutable_spec()->mutable_data()->set_batch_size(128);
  job.mutable_start_time()->set_seconds(1'700'000'000);
  job.set_num_attempts(1);
  v1::Attempt* attempt = job.add_attempts();
  attempt->set_number(1);
  attempt->set_state(v1::Attempt::RUNNING);
  attempt->set_worker("w1");
  attempt->add_devices("gpu0");
  attempt->set_precision("bf16");
  v1::Checkpoint* checkpoint = job.add_checkpoints();
  checkpoint->set_size_bytes(4096);
  checkpoint->set_save_seconds(1.5);
  checkpoint->mutable_time()->set_seconds(1'700'000'100);
  return job;
}

FleetSnapshot FullSnapshot() {
  FleetSnapshot snapshot;
  ProgressBoard board;
  StoredHistory history{"j-1", 1, {}, {}};
  PointSegment segment;
  segment.attempt = 1;
  segment.batch = Steps(1, 10);
  for (float& seconds : *segment.batch.mutable_steps()->mutable_data_wait_seconds()) {
    seconds = 0.125;
  }
  AddEval(11, 10, &segment.batch);
  history.items = MergeHistory({segment}, {}, false, false);
  board.Update(history);
  snapshot.jobs.push_back({std::make_shared<v1::Job>(RunningJob("j-1")), board.Find("j-1")});
  snapshot.live_jobs[{{"default", "default"}, v1::Job::RUNNING}] = 1;
  snapshot.live_jobs[{{"default", "night"}, v1::Job::QUEUED}] = 2;
  snapshot.oldest_queued_unix_seconds[{"default", "night"}] = 1'700'000'000;
  v1::Worker worker;
  worker.set_name("w1");
  worker.set_state(v1::Worker::BUSY);
  worker.mutable_last_report_time()->set_seconds(1'700'000'200);
  v1::Device* gpu = worker.add_devices();
  gpu->set_kind(v1::Device::GPU);
  gpu->set_id("gpu0");
  gpu->set_uuid("GPU-1");
  snapshot.workers.push_back(worker);
  return snapshot;
}

// Runs `promtool check metrics` on a page. Returns its output, which is empty if the page is correct.
std::string Promtool(const std::string& page) {
  TemporaryFolder folder;
  std::ofstream(folder.Path("page")) << page;
  const std::string command = "promtool check metrics < " + folder.Path("page") + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string said;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
    said.push_back(static_cast<char>(c));
  }
  const int status = pclose(pipe);
  return status == 0 ? said : "rc " + std::to_string(status) + ": " + said;
}

TEST(Metrics, AllPagesPassPromtool) {
  ServerMetrics metrics;
  metrics.Finished("ampd.v1.JobService/GetJob", absl::StatusCode::kOk, absl::Milliseconds(3), false, {});
  metrics.Finished("evil\"method\n", absl::StatusCode::kNotFound, absl::Milliseconds(3), false, {});
  metrics.StreamOpened("ampd.v1.JobService/WatchJob");
  v1::Job job = RunningJob("j-1");
  v1::Job ended = job;
  ended.set_state(v1::Job::FAILED);
  ended.set_reason(v1::Reason::OUT_OF_MEMORY);
  metrics.JobChanged(&job, ended);
  SnapshotCollector fleet(&metrics);
  fleet.Show(std::make_shared<FleetSnapshot>(FullSnapshot()));
  std::string page = Text(fleet.Collect());
  page += Text(ProcessCollector().Collect());
  page += Text(metrics.registry()->Collect());
  page += Text(LogCounter().Collect());
  EXPECT_EQ(Promtool(page), "") << page;
  EXPECT_NE(Promtool("ampd_jobs 1\nampd_jobs 2\n"), "") << "promtool must be able to complain";
}

TEST(Metrics, FleetShowsWhatJobsAndWorkersAre) {
  const std::string page = Text(RenderFleet(FullSnapshot()));
  for (
      const char* line : {
          "ampd_jobs{tenant=\"default\",queue=\"default\",state=\"running\"} 1",
          "ampd_jobs{tenant=\"default\",queue=\"default\",state=\"queued\"} 0",
          "ampd_jobs{tenant=\"default\",queue=\"night\",state=\"queued\"} 2",
          "ampd_workers{state=\"busy\"} 1",
          "ampd_workers{state=\"lost\"} 0",
          "ampd_gpus{state=\"allocated\"} 1",
          "ampd_gpus{state=\"free\"} 0",
          R"(ampd_job_info{job_id="j-1",tenant="default",name="fashion-bf16",queue="default",model="lenet",precision="bf16",worker="w1"} 1)",
          "ampd_job_gpu_info{job_id=\"j-1\",tenant=\"default\",UUID=\"GPU-1\",worker=\"w1\"} 1",
          "ampd_job_steps_total{job_id=\"j-1\",tenant=\"default\"} 10",
          "ampd_job_steps_planned{job_id=\"j-1\",tenant=\"default\"} 1000",
          "ampd_job_samples_total{job_id=\"j-1\",tenant=\"default\"} 1280",
          R"(ampd_job_step_seconds_total{job_id="j-1",tenant="default",phase="data"} 1.25)",
          R"(ampd_job_step_seconds_total{job_id="j-1",tenant="default",phase="other"} )",
          R"(ampd_job_state{job_id="j-1",tenant="default",state="running"} 1)",
          "ampd_job_loss{job_id=\"j-1\",tenant=\"default\",split=\"eval\"} 0.25",
          "ampd_job_skipped_steps_total{job_id=\"j-1\",tenant=\"default\"} 1",
          "ampd_job_loss_scale{job_id=\"j-1\",tenant=\"default\"} 65536",
          "ampd_job_checkpoint_bytes{job_id=\"j-1\",tenant=\"default\"} 4096",
          "ampd_job_checkpoint_seconds{job_id=\"j-1\",tenant=\"default\"} 1.5",
      }) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST(Metrics, JobsWhoseDataAreTokensCountThem) {
  FleetSnapshot snapshot = FullSnapshot();
  EXPECT_THAT(Text(RenderFleet(snapshot)), Not(HasSubstr("ampd_job_tokens_total")));
  v1::Job job = RunningJob("j-1");
  job.mutable_spec()->mutable_data()->mutable_train()->mutable_tokens()->set_sequence_length(64);
  snapshot.jobs[0].job = std::make_shared<v1::Job>(job);
  // The job has 10 steps of 128 samples. Each sample has 64 tokens.
  EXPECT_THAT(Text(RenderFleet(snapshot)), HasSubstr(R"(ampd_job_tokens_total{job_id="j-1",tenant="default"} 81920)"));
}

TEST(Metrics, EnergyAndTimeAreSumsOverTheStepsOfAnAttempt) {
  ProgressBoard board;
  StoredHistory history{"j-1", 1, {}, {}};
  PointSegment segment;
  segment.attempt = 1;
  segment.batch = Steps(1, 4);
  v1::StepColumns& steps = *segment.batch.mutable_steps();
  steps.clear_power_watts();
  for (int i = 0; i < 4; ++i) {
    steps.set_time_unix_micros(i, 1'000'000 + i * 500'000);
    steps.set_data_wait_seconds(i, 0.125F);
    steps.set_samples_per_second(i, 512);  // A step of 128 samples takes a quarter of a second.
    steps.add_power_watts(i == 2 ? std::nanf("") : 100.0F);
    steps.add_memory_reserved_bytes(1e9F * static_cast<float>(1 + i));
    steps.add_allocation_retries(static_cast<float>(i));
  }
  history.items = MergeHistory({segment}, {}, false, false);
  board.Update(history);
  FleetSnapshot snapshot;
  snapshot.jobs.push_back({std::make_shared<v1::Job>(RunningJob("j-1")), board.Find("j-1")});
  const std::string page = Text(RenderFleet(snapshot));
  // The energy of a step is its power times the half second since the previous step. Only the second and the last step
  // count: the first has no previous step, and the third has no power.
  EXPECT_THAT(page, HasSubstr("ampd_job_energy_joules_total{job_id=\"j-1\",tenant=\"default\"} 100\n"));
  EXPECT_THAT(page, HasSubstr(R"(ampd_job_step_seconds_total{job_id="j-1",tenant="default",phase="data"} 0.5)"));
  EXPECT_THAT(page, HasSubstr(R"(ampd_job_step_seconds_total{job_id="j-1",tenant="default",phase="compute"} 0.5)"));
  EXPECT_THAT(page, HasSubstr("ampd_job_memory_reserved_bytes{job_id=\"j-1\",tenant=\"default\"} 4000000000\n"));
  EXPECT_THAT(page, HasSubstr("ampd_job_allocator_retries_total{job_id=\"j-1\",tenant=\"default\"} 3\n"));
  // The last step ended 1.75 s after the first one began; three pauses of a quarter of a second lie between steps.
  EXPECT_THAT(page, HasSubstr(R"(ampd_job_step_seconds_total{job_id="j-1",tenant="default",phase="other"} 0.75)"));
}

TEST(Metrics, AJobOfEpochsHasPlannedStepsOnceATrainerCountedThem) {
  FleetSnapshot snapshot = FullSnapshot();
  v1::Job job = RunningJob("j-1");
  job.mutable_spec()->mutable_train()->set_epochs(3);
  snapshot.jobs[0].job = std::make_shared<v1::Job>(job);
  EXPECT_THAT(Text(RenderFleet(snapshot)), Not(HasSubstr("ampd_job_steps_planned")));
  job.mutable_attempts(0)->set_total_steps(705);
  snapshot.jobs[0].job = std::make_shared<v1::Job>(job);
  EXPECT_THAT(Text(RenderFleet(snapshot)), HasSubstr("ampd_job_steps_planned{job_id=\"j-1\",tenant=\"default\"} 705"));
}

TEST(Metrics, PhasesOfAStepHaveSeriesOfTheirOwnAndOtherStepsHaveNone) {
  FleetSnapshot snapshot = FullSnapshot();
  EXPECT_THAT(Text(RenderFleet(snapshot)), Not(HasSubstr("ampd_job_phase_loss")));
  EXPECT_THAT(Text(RenderFleet(snapshot)), Not(HasSubstr("ampd_job_phase_skipped")));
  ProgressBoard board;
  PointSegment segment;
  segment.attempt = 1;
  segment.batch = Steps(1, 21);
  segment.batch.mutable_steps()->add_phases()->set_name("discriminator");
  segment.batch.mutable_steps()->add_phases()->set_name("generator");
  for (int step = 1; step <= 21; ++step) {  // One phase skips steps 7, 14 and 21.
    for (v1::PhaseColumns& phase : *segment.batch.mutable_steps()->mutable_phases()) {
      const bool is_generator = phase.name() == "generator";
      phase.add_loss(static_cast<float>(is_generator ? step : -step));
      phase.add_grad_norm(2);
      phase.add_skipped(is_generator ? step == 7 : step % 7 == 0);
    }
  }
  board.Update({"j-1", 1, {}, MergeHistory({segment}, {}, false, false)});
  snapshot.jobs[0].progress = board.Find("j-1");
  const std::string page = Text(RenderFleet(snapshot));
  EXPECT_THAT(page, HasSubstr(R"(ampd_job_phase_loss{job_id="j-1",tenant="default",phase="generator"} 21)"));
  EXPECT_THAT(page, HasSubstr("ampd_job_skipped_steps_total{job_id=\"j-1\",tenant=\"default\"} 3"));
  EXPECT_THAT(page,
              HasSubstr(R"(ampd_job_phase_skipped_steps_total{job_id="j-1",tenant="default",phase="generator"} 1)"));
  EXPECT_THAT(
      page, HasSubstr(R"(ampd_job_phase_skipped_steps_total{job_id="j-1",tenant="default",phase="discriminator"} 3)"));
  EXPECT_EQ(Promtool(page), "");
  // Attempt 2 resumes from step 10. The later steps that attempt 1 skipped must no longer be counted.
  PointSegment again;
  again.attempt = 2;
  again.batch = Steps(1, 1, 10);
  board.Update({"j-1", 2, {}, MergeHistory({again}, {}, false, false)});
  EXPECT_EQ(board.Find("j-1")->progress.skipped_steps(), 1);
}

TEST(ProgressBoard, TellsOfAnEvaluationWhatItHas) {
  const auto progress_of = [](const v1::EvalPoint& point) {
    ProgressBoard board;
    PointSegment segment;
    segment.attempt = 1;
    *segment.batch.add_evals() = point;
    board.Update({"j-1", 1, {}, MergeHistory({segment}, {}, false, false)});
    return board.Find("j-1")->progress;
  };
  v1::EvalPoint point;
  point.set_sequence(1);
  point.set_loss(0.5);
  EXPECT_EQ(progress_of(point).eval_loss(), 0.5);
  EXPECT_FALSE(progress_of(point).has_eval_accuracy()) << "of a regression";
  EXPECT_FALSE(progress_of(point).has_eval_f1());
  EXPECT_FALSE(progress_of(point).has_eval_top5_accuracy());
  point.set_accuracy(0);
  point.set_f1(0.25);
  point.set_top5_accuracy(0.75);
  EXPECT_TRUE(progress_of(point).has_eval_accuracy());
  EXPECT_EQ(progress_of(point).eval_f1(), 0.25);
  EXPECT_EQ(progress_of(point).eval_top5_accuracy(), 0.75);
  point.set_perplexity(2);
  EXPECT_FALSE(progress_of(point).has_eval_accuracy()) << "of a language model";
}

TEST(ProgressBoard, TellsOfAJobWhosePointsAreGoneWhatItsLastAttemptEndedWith) {
  v1::Job job = RunningJob("j-1");
  v1::FinalMetrics& metrics = *job.mutable_attempts(0)->mutable_outcome()->mutable_final_metrics();
  job.mutable_attempts(0)->mutable_outcome()->set_last_step(1000);
  const auto progress_of = [](v1::Job job) {
    ProgressBoard().AddTo(&job);
    return job.progress();
  };
  metrics.set_eval_loss(0.5);
  EXPECT_EQ(progress_of(job).eval_loss(), 0.5);
  EXPECT_FALSE(progress_of(job).has_eval_accuracy()) << "of a regression";
  EXPECT_FALSE(progress_of(job).has_eval_top5_accuracy());
  EXPECT_FALSE(progress_of(job).has_eval_f1());
  metrics.set_eval_accuracy(0);
  metrics.set_eval_top5_accuracy(0.75);
  metrics.set_eval_f1(0.25);
  EXPECT_TRUE(progress_of(job).has_eval_accuracy());
  EXPECT_EQ(progress_of(job).eval_top5_accuracy(), 0.75);
  EXPECT_EQ(progress_of(job).eval_f1(), 0.25);
}

TEST(Metrics, CountsWhatBecomesOfJobs) {
  ServerMetrics metrics;
  v1::Job queued;
  queued.set_state(v1::Job::QUEUED);
  metrics.JobChanged(nullptr, queued);
  v1::Job running = RunningJob("j");
  metrics.JobChanged(&queued, running);
  v1::Job lost = running;
  lost.set_state(v1::Job::QUEUED);
  lost.mutable_attempts(0)->set_state(v1::Attempt::ENDED);
  lost.mutable_attempts(0)->mutable_outcome()->set_reason(v1::Reason::WORKER_LOST);
  metrics.JobChanged(&running, lost);
  v1::Job done = running;
  done.set_state(v1::Job::SUCCEEDED);
  metrics.JobChanged(&running, done);
  metrics.JobChanged(&done, done);
  const std::string page = Text(metrics.registry()->Collect());
  EXPECT_THAT(page, HasSubstr("ampd_jobs_submitted_total{queue=\"default\"} 1"));
  EXPECT_THAT(page, HasSubstr("ampd_job_requeues_total{reason=\"worker_lost\"} 1"));
  EXPECT_THAT(page, HasSubstr("ampd_jobs_finished_total{queue=\"default\",result=\"succeeded\"} 1"));
  EXPECT_THAT(page, HasSubstr("ampd_jobs_finished_total{queue=\"default\",result=\"failed\"} 0"));
  EXPECT_THAT(page, HasSubstr("ampd_job_queue_wait_seconds_count{queue=\"default\"} 1"));
}

TEST(Metrics, CountsLooksForPlacesByWhatCameOfThem) {
  ServerMetrics metrics;
  metrics.SchedulerCycle(/*num_waiting=*/0, /*num_placed=*/0, absl::Milliseconds(1));
  metrics.SchedulerCycle(3, 0, absl::Milliseconds(1));
  metrics.SchedulerCycle(3, 0, absl::Milliseconds(1));
  metrics.SchedulerCycle(3, 1, absl::Milliseconds(1));
  const std::string page = Text(metrics.registry()->Collect());
  EXPECT_THAT(page, HasSubstr("ampd_scheduler_cycles_total{result=\"idle\"} 1"));
  EXPECT_THAT(page, HasSubstr("ampd_scheduler_cycles_total{result=\"no_capacity\"} 2"));
  EXPECT_THAT(page, HasSubstr("ampd_scheduler_cycles_total{result=\"assigned\"} 1"));
  EXPECT_THAT(page, HasSubstr("ampd_scheduler_cycle_seconds_count 4"));
}

// Returns the value of the first label `name` on a page. Unescapes it as the text format specifies, without code of the
// serializer.
std::string ReadLabel(const std::string& page, const std::string& name) {
  size_t at = page.find(name + "=\"") + name.size() + 2;
  std::string value;
  for (; page[at] != '"'; ++at) {
    if (page[at] == '\\') {
      ++at;
      value += page[at] == 'n' ? '\n' : page[at];
    } else {
      value += page[at];
    }
  }
  return value;
}

TEST(Metrics, AnyBytesInANameSurviveOrAreReplaced) {
  const uint64_t seed = SystemRandom().Next();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  std::string pages;
  for (int i = 0; i < 500; ++i) {
    std::string name;
    for (uint64_t n = random.Next() % 20; n > 0; --n) {
      name += random.Next() % 3 == 0 ? "\"\\\n{}é"[random.Next() % 7] : static_cast<char>(random.Next());
    }
    FleetSnapshot snapshot;
    v1::Job job = RunningJob("j");
    job.mutable_spec()->set_name("x");
    snapshot.jobs.push_back({std::make_shared<v1::Job>(job), std::nullopt});
    snapshot.workers.emplace_back().set_name(SafeLabelValue(name));
    snapshot.workers[0].mutable_last_report_time()->set_seconds(1);
    const std::string page = Text(RenderFleet(snapshot));
    EXPECT_EQ(ReadLabel(page, "ampd_worker_last_heartbeat_timestamp_seconds{worker"), SafeLabelValue(name));
    EXPECT_EQ(SafeLabelValue(name), SafeLabelValue(SafeLabelValue(name)));
    if (i % 100 == 0) {
      EXPECT_EQ(Promtool(page), "") << page;
    }
  }
}

TEST(Metrics, LabelValuesKeepGoodTextAndReplaceBad) {
  EXPECT_EQ(SafeLabelValue("naïve \"x\" \\ 日本 🙂"), "naïve \"x\" \\ 日本 🙂");
  EXPECT_EQ(SafeLabelValue("a\nb\rc"), "a b c");
  EXPECT_EQ(SafeLabelValue("\xff\xc0\x80"), "???");
  EXPECT_EQ(SafeLabelValue("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(SafeLabelValue("\xf0\x9f"), "??") << "cut short";
}

TEST(JobTable, ShowsAJobUntilItHasLingered) {
  JobTable table(absl::Minutes(2));
  const absl::Time start = absl::FromUnixSeconds(1'700'000'000);
  auto job = std::make_shared<v1::Job>(RunningJob("j"));
  table.Put(job, start);
  EXPECT_EQ(table.Shown(start + absl::Hours(5)).size(), 1u);
  auto ended = std::make_shared<v1::Job>(*job);
  ended->set_state(v1::Job::SUCCEEDED);
  EXPECT_EQ(table.Put(ended, start), job);
  EXPECT_EQ(table.Shown(start + absl::Seconds(119)).size(), 1u);
  EXPECT_EQ(table.Shown(start + absl::Seconds(120)).size(), 0u);
}

TEST(ProgressBoard, FollowsTheNewestAttemptAndIsReadBackAfterARestart) {
  StoreOnDisk store;
  ProgressBoard fed;
  store.on_stored = [&](const StoredHistory& stored) { fed.Update(stored); };
  ASSERT_TRUE(store.Append(1, Steps(1, 30)).ok());
  ASSERT_TRUE(store.Append(2, Steps(1, 5000, 20), 20).ok());
  store.Reopen();
  ProgressBoard restored;
  ASSERT_TRUE(restored.Restore(&*store, "j").ok());
  ASSERT_TRUE(restored.Find("j").has_value());
  EXPECT_EQ(restored.Find("j")->progress.SerializeAsString(), fed.Find("j")->progress.SerializeAsString());
  EXPECT_EQ(fed.Find("j")->progress.step(), 5020);
  EXPECT_EQ(fed.Find("j")->progress.skipped_steps(), 5020 / 7) << "of the curve: attempt 1 to step 20, then attempt 2";
  EXPECT_NEAR(fed.Find("j")->progress.steps_per_second(), 1000, 1e-6);
}

TEST(ProgressBoard, CountsASkippedStepThatComesAgainOnce) {
  StoreOnDisk store;
  ProgressBoard board;
  store.on_stored = [&](const StoredHistory& stored) { board.Update(stored); };
  ASSERT_TRUE(store.Append(1, Steps(1, 30)).ok());  // Steps 7, 14, 21 and 28 are skipped.
  EXPECT_EQ(board.Find("j")->progress.skipped_steps(), 4);
  ASSERT_TRUE(store.Append(1, Steps(31, 40, -20)).ok());  // A rollback: steps 11 to 20 run again.
  EXPECT_EQ(board.Find("j")->progress.skipped_steps(), 2);
  ASSERT_TRUE(store.Append(2, Steps(1, 20, 10), /*from_step=*/10).ok());  // The next attempt runs steps 11 to 30.
  EXPECT_EQ(board.Find("j")->progress.skipped_steps(), 4);
}

TEST(ProgressBoard, SaysNothingOfTheLossBeforeTheFirstStep) {
  ProgressBoard board;
  v1::Job job;
  job.set_id("j");
  board.AddTo(&job);
  EXPECT_FALSE(job.progress().has_loss());
  job.add_attempts()->mutable_outcome()->set_reason(v1::Reason::DATA_ERROR);
  board.AddTo(&job);
  EXPECT_FALSE(job.progress().has_loss()) << "it ended before its first step";
  job.mutable_attempts(0)->mutable_outcome()->set_last_step(40);
  board.AddTo(&job);
  EXPECT_EQ(job.progress().step(), 40);
  EXPECT_FALSE(job.progress().has_loss()) << "its trainer reported none";
  StoreOnDisk store;
  store.on_stored = [&](const StoredHistory& stored) { board.Update(stored); };
  ASSERT_TRUE(store.Append(1, Steps(1, 1)).ok());
  board.AddTo(&job);
  EXPECT_TRUE(job.progress().has_loss());
}

TEST(ProgressBoard, TellsTheTotalOfAJobOfEpochsOnceAnAttemptCountedIt) {
  const ProgressBoard board;
  v1::Job job;
  job.mutable_spec()->mutable_train()->set_epochs(3);
  job.add_attempts();
  board.AddTo(&job);
  EXPECT_EQ(job.progress().total_steps(), 0);
  job.mutable_attempts(0)->set_total_steps(705);
  job.add_attempts();  // The second attempt has not opened its data yet.
  board.AddTo(&job);
  EXPECT_EQ(job.progress().total_steps(), 705);
  job.mutable_spec()->mutable_train()->set_steps(40);
  job.clear_attempts();
  board.AddTo(&job);
  EXPECT_EQ(job.progress().total_steps(), 40);
}

}  // namespace
}  // namespace ampd::server
