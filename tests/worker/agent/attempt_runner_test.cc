#include "worker/agent/attempt_runner.h"

#include <gmock/gmock.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/ipc/frames.h"
#include "base/ipc/unix_socket.h"
#include "base/simulated_clock.h"
#include "gtest/gtest.h"
#include "tests/worker/agent/trainers/left_trainers.h"

namespace ampd::agent {
namespace {

using internal::ShimCommand;
using internal::ShimStatus;
using internal::TrainerCommand;
using internal::TrainerReport;

// Acts as a shim and as its trainer: listens on both sockets of a spawn folder, and reads what the agent sends.
// Single-threaded.
class FakeTrainer {
 public:
  explicit FakeTrainer(const std::string& folder)
      : shim_listener_(*ListenUnix(folder + "/shim.sock")), trainer_listener_(*ListenUnix(folder + "/trainer.sock")) {}

  // Accepts the agent's connections. REQUIRES: the agent has connected.
  void Accept() {
    shim_ = *AcceptUnix(shim_listener_.get());
    trainer_ = *AcceptUnix(trainer_listener_.get());
    // With this limit, a message that never comes fails the test instead of blocking it.
    const timeval limit = {20, 0};
    for (const int fd : {shim_.get(), trainer_.get()}) {
      EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    }
  }

  void ConfirmLease(absl::Duration deadline) const {
    ShimStatus status;
    status.set_lease_deadline_boottime_nanos(absl::ToInt64Nanoseconds(deadline));
    EXPECT_TRUE(WriteFrame(shim_.get(), status).ok());
  }
  void Report(const TrainerReport& report) const { EXPECT_TRUE(WriteFrame(trainer_.get(), report).ok()); }
  // Sends a whole frame with this payload.
  void SendPayload(std::string_view payload) const {
    std::string frame;
    AppendFrame(payload, &frame);
    EXPECT_TRUE(WriteAll(trainer_.get(), frame).ok());
  }

  void ReportEnd(int signal) const {
    ShimStatus status;
    status.set_exited(true);
    status.set_signal(signal);
    EXPECT_TRUE(WriteFrame(shim_.get(), status).ok());
  }
  // Closes the shim's socket, as at the end of the shim.
  void EndShim() {
    shim_listener_.Reset();
    shim_.Reset();
  }

  TrainerCommand NextCommand() const { return Next<TrainerCommand>(trainer_.get()); }
  ShimCommand NextShimCommand() const { return Next<ShimCommand>(shim_.get()); }

 private:
  template <typename Message>
  static Message Next(int fd) {
    Message message;
    const auto payload = ReadFrame(fd);
    EXPECT_TRUE(payload.ok() && payload->has_value() && message.ParseFromString(**payload));
    return message;
  }

  UniqueFd shim_listener_;
  UniqueFd trainer_listener_;
  UniqueFd shim_;
  UniqueFd trainer_;
};

// An artifact source that is never used, because the cache's thread does not run in these tests.
class NoSource final : public ArtifactSource {
 public:
  absl::Status Download(const std::string&, int64_t, const OnPiece&) override { return absl::UnimplementedError(""); }
  void Cancel() override {}
};

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpanOfServer[] = "00f067aa0ba902b7";
constexpr char kTraceparentOfServer[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

class AttemptRunnerTest : public testing::Test {
 protected:
  TrainerPool::Options PoolOptions() {
    TrainerPool::Options options;
    options.state_folder = left_.state_folder();
    options.command = {"/bin/true", {"trainer"}};
    options.log = [](const std::string&) {};
    options.on_start = [] {};
    options.on_device_change = [] {};
    options.random = &random_;
    return options;
  }
  ArtifactCache::Options CacheOptions() {
    ArtifactCache::Options options;
    options.folder = left_.state_folder() + "/artifacts";
    options.source = &source_;
    options.clock = &clock_;
    return options;
  }
  AttemptRunner::Options RunnerOptions() {
    AttemptRunner::Options options;
    options.checkpoint_root = "/checkpoints";
    options.data_roots = {{"cifar", "/data/cifar"}};
    options.cancel_grace = absl::Seconds(10);
    options.leave_grace = absl::Minutes(5);
    options.log = [this](const std::string& line, const LogFields& fields) { lines_.push_back({line, fields}); };
    options.report_soon = [this] { ++num_changes_; };
    options.on_end = [this](const v1::Outcome& outcome) { ended_.push_back(outcome.reason()); };
    options.clock = &clock_;
    options.random = &random_;
    options.artifacts = &artifacts_;
    options.attempts = &attempts_;
    options.trainers = &trainers_;
    options.devices = &devices_;
    options.times = &times_;
    return options;
  }

  absl::Duration Now() const { return clock_.SinceBoot(); }
  void Poll() { runner_.Poll(Now()); }

  static v1::WorkerDirective Directive() {
    v1::WorkerDirective directive;
    directive.mutable_id()->set_epoch(7);
    return directive;
  }
  // Returns the action that starts `job` on the CPU, with a lease of a minute.
  StartAction StartOf(const std::string& job) const {
    StartAction start;
    *start.directive.mutable_key() = LeftTrainers::Key(job);
    start.directive.mutable_spec()->set_name("the spec");
    start.directive.mutable_spec()->mutable_data()->set_batch_size(16);
    start.directive.set_precision("bf16");
    start.device = "cpu";
    start.lease_deadline = Now() + absl::Minutes(1);
    start.suspend_limit = absl::Seconds(30);
    return start;
  }
  void Apply(const Actions& actions, bool may_start = true) { runner_.Apply(actions, Directive(), may_start); }

  // Adds a warm trainer (started in advance, without a job) for the CPU, which the pool adopts.
  FakeTrainer AddWarm() {
    left_.Add("warm");
    trainers_.Adopt();
    return FakeTrainer(left_.PathOf("warm"));
  }
  // Starts `job` on the trainer and confirms the lease. Returns the start command that the trainer receives.
  TrainerCommand StartOn(FakeTrainer& trainer, const std::string& job) {
    Actions actions;
    actions.start.push_back(StartOf(job));
    Apply(actions);
    Poll();
    trainer.Accept();
    trainer.ConfirmLease(actions.start[0].lease_deadline);
    Poll();
    return trainer.NextCommand();
  }

  // Returns the attempts and states that the agent reports, such as "j1:RUNNING j2:ASSIGNED".
  std::string Reported() const {
    v1::WorkerReport report;
    attempts_.AddTo(&report, Now());
    return absl::StrJoin(report.attempts(), " ", [](std::string* text, const v1::AttemptReport& attempt) {
      absl::StrAppend(text, attempt.key().job_id(), ":", v1::Attempt::State_Name(attempt.state()));
    });
  }

  // The lines of the log, each with the names and values of all its fields, including empty ones.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const auto& [line, fields] : lines_) {
      lines.push_back(line);
      for (const auto& [name, value] : fields) {
        std::visit([&, &name = name](const auto& shown) { absl::StrAppend(&lines.back(), " ", name, "=", shown); },
                   value);
      }
    }
    return lines;
  }

  LeftTrainers left_;
  SimulatedClock clock_;
  SeededRandom random_{1};
  NoSource source_;
  ArtifactCache artifacts_{CacheOptions()};
  AttemptList attempts_;
  TrainerPool trainers_{PoolOptions()};
  std::vector<v1::Device> devices_;
  int num_changes_ = 0;
  std::vector<v1::Reason::Code> ended_;  // The reasons of all ended attempts, in order.
  std::vector<std::pair<std::string, LogFields>> lines_;
  TrainingTimes times_;
  AttemptRunner runner_{RunnerOptions()};
};

TEST_F(AttemptRunnerTest, AssignedAttempt_StartsUnderAConfirmedLease) {
  devices_.emplace_back().set_id("cpu");
  FakeTrainer trainer = AddWarm();
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  Apply(actions);
  EXPECT_EQ(Reported(), "j1:STARTING");
  Poll();
  trainer.Accept();
  const ShimCommand lease = trainer.NextShimCommand();
  EXPECT_EQ(lease.lease_deadline_boottime_nanos(), absl::ToInt64Nanoseconds(actions.start[0].lease_deadline));
  EXPECT_EQ(lease.suspend_limit_nanos(), absl::ToInt64Nanoseconds(absl::Seconds(30)));
  trainer.ConfirmLease(actions.start[0].lease_deadline - absl::Seconds(1));
  Poll();
  EXPECT_EQ(attempts_.Find(LeftTrainers::Key("j1"))->commanded_connection, 0) << "the shim has an earlier lease";
  EXPECT_FALSE(runner_.ConsumeReconcileRequest());
  trainer.ConfirmLease(actions.start[0].lease_deadline);
  Poll();
  const TrainerCommand command = trainer.NextCommand();
  ASSERT_TRUE(command.has_start());
  EXPECT_EQ(command.start().spec().name(), "the spec");
  EXPECT_EQ(command.start().device().id(), "cpu");
  EXPECT_EQ(command.start().data_roots().at("cifar"), "/data/cifar");
  EXPECT_EQ(command.start().epoch(), 7u);
  EXPECT_TRUE(runner_.ConsumeReconcileRequest()) << "it may need orders";
  EXPECT_FALSE(runner_.ConsumeReconcileRequest());
}

TEST_F(AttemptRunnerTest, AttemptInATrace_IsASpanAboveThatOfItsTrainer) {
  FakeTrainer trainer = AddWarm();
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  actions.start[0].directive.set_traceparent(kTraceparentOfServer);
  Apply(actions);
  Poll();
  trainer.Accept();
  trainer.ConfirmLease(actions.start[0].lease_deadline);
  Poll();
  const std::optional<TraceContext> own = ParseTraceparent(trainer.NextCommand().start().traceparent());
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(TraceIdOf(*own), kTraceId);
  EXPECT_NE(SpanIdOf(*own), kSpanOfServer);
  TrainerReport report;
  report.mutable_outcome()->set_kind(v1::Outcome::FINISHED);
  report.mutable_outcome()->set_last_step(40);
  trainer.Report(report);
  Poll();
  const std::string ids =
      absl::StrCat(" trace_id=", kTraceId, " span_id=", SpanIdOf(*own), " parent_span_id=", kSpanOfServer);
  EXPECT_THAT(Lines(), testing::ElementsAre("attempt started job_id=j1 attempt=1 device=cpu" + ids,
                                            "attempt ended job_id=j1 attempt=1 outcome=FINISHED reason= "
                                            "step=40 detail=" +
                                                ids));
}

TEST_F(AttemptRunnerTest, AttemptOfAnEarlierAgent_StaysInItsTrace) {
  left_.Add("warm");
  trainers_.Adopt();
  ASSERT_TRUE(trainers_.Assign("cpu", LeftTrainers::Key("j1"), Now(), kTraceparentOfServer).ok());
  TrainerPool later(PoolOptions());
  later.Adopt();
  AttemptList attempts;
  AttemptRunner::Options options = RunnerOptions();
  options.trainers = &later;
  options.attempts = &attempts;
  AttemptRunner(options).Adopt();
  const TraceContext& own = attempts.Find(LeftTrainers::Key("j1"))->trace;
  EXPECT_EQ(TraceIdOf(own), kTraceId);
  EXPECT_EQ(ParentSpanIdOf(own), kSpanOfServer);
  EXPECT_THAT(Lines(), testing::ElementsAre(testing::HasSubstr(kTraceId)));
}

// An older server sends no trace, and a faulty server may send an invalid one.
TEST_F(AttemptRunnerTest, AttemptWithoutAValidTrace_RunsWithoutOne) {
  FakeTrainer trainer = AddWarm();
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  actions.start[0].directive.set_traceparent("00-forged trace_id=1");
  Apply(actions);
  Poll();
  trainer.Accept();
  trainer.ConfirmLease(actions.start[0].lease_deadline);
  Poll();
  EXPECT_EQ(trainer.NextCommand().start().traceparent(), "");
  EXPECT_THAT(Lines(), testing::ElementsAre(
                           "attempt started job_id=j1 attempt=1 device=cpu trace_id= span_id= parent_span_id="));
}

TEST_F(AttemptRunnerTest, TrainerThatRuns_IsReported) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  TrainerReport report;
  report.mutable_state()->set_state(v1::Attempt::RUNNING);
  report.mutable_state()->set_step(3);
  trainer.Report(report);
  num_changes_ = 0;
  Poll();
  EXPECT_EQ(Reported(), "j1:RUNNING");
  EXPECT_EQ(attempts_.Find(LeftTrainers::Key("j1"))->step, 3);
  EXPECT_GT(num_changes_, 0);
}

TEST_F(AttemptRunnerTest, StepsAndCheckpoints_AreTimedOnceThoughTheTrainerRepeatsThem) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  TrainerReport steps;
  v1::StepColumns& columns = *steps.mutable_telemetry()->mutable_steps();
  for (const uint64_t sequence : {1u, 2u, 3u}) {
    columns.add_sequence(sequence);
    columns.add_samples_per_second(sequence == 3 ? 0.0f : 64.0f);  // 16 samples at 64 per second take 0.25 s.
  }
  TrainerReport checkpoint;
  checkpoint.mutable_checkpoint()->set_step(2);
  checkpoint.mutable_checkpoint()->set_save_seconds(1.5);
  for (int i = 0; i < 2; ++i) {
    trainer.Report(steps);
    trainer.Report(checkpoint);
  }
  checkpoint.mutable_checkpoint()->set_step(3);
  checkpoint.mutable_checkpoint()->set_save_seconds(0);  // An older trainer does not report this time.
  trainer.Report(checkpoint);
  Poll();
  const std::string page = prometheus::TextSerializer().Serialize(times_.Collect());
  for (const char* const line :
       {R"(ampd_worker_step_seconds_count{precision="bf16"} 2)",
        R"(ampd_worker_step_seconds_sum{precision="bf16"} 0.5)",
        R"(ampd_worker_step_seconds_bucket{precision="bf16",le="0.1"} 0)",
        R"(ampd_worker_step_seconds_bucket{precision="bf16",le="0.3"} 2)",
        "ampd_worker_checkpoint_save_seconds_count 1", "ampd_worker_checkpoint_save_seconds_sum 1.5"}) {
    EXPECT_THAT(page, testing::HasSubstr(absl::StrCat(line, "\n")));
  }
}

TEST_F(AttemptRunnerTest, AttemptThatIsAskedToLeave_IsKilledAfterTheGrace) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  Actions actions;
  actions.leave.push_back({LeftTrainers::Key("j1"), v1::Job::CANCEL, v1::Reason::USER_CANCELLED});
  Apply(actions);
  EXPECT_EQ(Reported(), "j1:STOPPING");
  EXPECT_EQ(trainer.NextCommand().leave().reason(), v1::Reason::USER_CANCELLED);
  trainer.NextShimCommand();  // skip the command with the lease
  clock_.Advance(absl::Seconds(10));
  Poll();
  EXPECT_TRUE(trainer.NextShimCommand().kill());
}

TEST_F(AttemptRunnerTest, LeavingAgent_GivesEveryAttemptUntilItsDeadline) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  runner_.LeaveAll(v1::Reason::WORKER_DRAINED, Now() + absl::Seconds(3));
  EXPECT_EQ(trainer.NextCommand().leave().desired(), v1::Job::PAUSE);
  trainer.NextShimCommand();  // skip the command with the lease
  clock_.Advance(absl::Seconds(3));
  Poll();
  EXPECT_TRUE(trainer.NextShimCommand().kill());
}

TEST_F(AttemptRunnerTest, Orders_AreSentToATrainerThatHasItsAttempt) {
  FakeTrainer trainer = AddWarm();
  Actions start;
  start.start.push_back(StartOf("j1"));
  Apply(start);
  Actions orders;
  v1::LiveLossScale settings;
  settings.set_number(4);
  orders.loss_scale.push_back({LeftTrainers::Key("j1"), settings});
  orders.sample_gradients.push_back({LeftTrainers::Key("j1"), 5});
  v1::ProfileRequest profile;
  profile.set_number(6);
  profile.set_num_steps(20);
  orders.profile.push_back({LeftTrainers::Key("j1"), profile});
  Apply(orders);
  const HeldAttempt& held = attempts_.Find(LeftTrainers::Key("j1"))->held;
  EXPECT_EQ(held.sent_loss_scale, 0u) << "it has no trainer yet";
  Poll();
  trainer.Accept();
  trainer.ConfirmLease(start.start[0].lease_deadline);
  Poll();
  EXPECT_TRUE(trainer.NextCommand().has_start());
  Apply(orders);
  EXPECT_EQ(trainer.NextCommand().live_loss_scale().number(), 4u);
  EXPECT_EQ(trainer.NextCommand().sample_gradients().number(), 5u);
  EXPECT_EQ(trainer.NextCommand().profile().num_steps(), 20);
  EXPECT_EQ(held.sent_loss_scale, 4u);
  EXPECT_EQ(held.sent_gradient_request, 5u);
  EXPECT_EQ(held.sent_profile_request, 6u);
}

TEST_F(AttemptRunnerTest, CheckpointThatTheServerHas_IsAcknowledgedToTheTrainer) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  TrainerReport report;
  report.mutable_checkpoint()->set_step(20);
  trainer.Report(report);
  Poll();
  Actions actions;
  *actions.acknowledge_checkpoints.emplace_back().mutable_attempt() = LeftTrainers::Key("j1");
  actions.acknowledge_checkpoints.back().set_step(20);
  Apply(actions);
  const TrainerCommand command = trainer.NextCommand();
  ASSERT_EQ(command.acknowledge().checkpoint_steps_size(), 1);
  EXPECT_EQ(command.acknowledge().checkpoint_steps(0), 20);
}

TEST_F(AttemptRunnerTest, EndedAttempt_ExitsWhenItsOutcomeIsDurableAndItsTelemetryStored) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  TrainerReport report;
  report.mutable_outcome()->set_kind(v1::Outcome::FAILED);
  report.mutable_outcome()->set_reason(v1::Reason::OUT_OF_MEMORY);
  report.set_after_sequence(5);
  trainer.Report(report);
  Poll();
  EXPECT_EQ(Reported(), "j1:ENDED");
  trainer.Report(report);  // A repeated outcome must not count twice.
  Poll();
  EXPECT_EQ(ended_, std::vector<v1::Reason::Code>{v1::Reason::OUT_OF_MEMORY});
  Actions actions;
  actions.forget.push_back(LeftTrainers::Key("j1"));
  Apply(actions);
  EXPECT_EQ(Reported(), "");
  AttemptOnWorker& attempt = *attempts_.Find(LeftTrainers::Key("j1"));
  runner_.Release(Now());
  EXPECT_FALSE(attempt.kill_at.has_value()) << "its telemetry is not here yet";
  v1::TelemetryAck ack;
  ack.set_refused(true);
  attempt.backlog.OnAck(ack, Now());
  runner_.Release(Now());
  EXPECT_TRUE(trainer.NextCommand().acknowledge().outcome());
  EXPECT_TRUE(attempt.kill_at.has_value());
  attempt.held.occupies_device = false;
  attempt.backlog.SetLogDone(true);
  runner_.Release(Now());
  EXPECT_TRUE(attempts_.empty());
  EXPECT_TRUE(trainers_.empty());
}

TEST_F(AttemptRunnerTest, TrainerOfAnEarlierAgentThatHasExited_EndsItsAttempt) {
  left_.Add("spawn", "j1");
  left_.End("spawn", SIGABRT);
  trainers_.Adopt();
  runner_.Adopt();
  EXPECT_EQ(Reported(), "j1:STARTING");
  Poll();
  EXPECT_EQ(Reported(), "j1:ENDED");
  const AttemptOnWorker& attempt = *attempts_.Find(LeftTrainers::Key("j1"));
  EXPECT_EQ(attempt.outcome->signal(), SIGABRT);
  EXPECT_FALSE(attempt.held.occupies_device);
  EXPECT_TRUE(runner_.ConsumeReconcileRequest()) << "its device is free";
}

// The report may be the outcome, for which the trainer waits an hour.
TEST_F(AttemptRunnerTest, TrainerThatSendsAnUnreadableReport_IsKilledAndItsAttemptFails) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  TrainerReport report;
  report.mutable_state()->set_state(v1::Attempt::RUNNING);
  report.mutable_state()->set_step(7);
  trainer.Report(report);
  report.mutable_outcome()->set_message("half a character: \xe4\xb8");
  trainer.SendPayload(report.SerializeAsString());
  Poll();
  EXPECT_EQ(Reported(), "j1:RUNNING") << "its process still runs";
  trainer.NextShimCommand();  // skip the command with the lease
  EXPECT_TRUE(trainer.NextShimCommand().kill());
  left_.End("warm", SIGKILL);
  trainer.EndShim();
  Poll();
  EXPECT_EQ(Reported(), "j1:ENDED");
  const v1::Outcome& outcome = *attempts_.Find(LeftTrainers::Key("j1"))->outcome;
  EXPECT_EQ(outcome.kind(), v1::Outcome::FAILED);
  EXPECT_EQ(outcome.reason(), v1::Reason::INTERNAL);
  EXPECT_EQ(outcome.last_step(), 7);
}

TEST_F(AttemptRunnerTest, OutcomeThatNamesAPathThatIsNotUtf8_IsReadableForTheServer) {
  Actions actions;
  v1::Outcome outcome;
  outcome.set_message("can't open caf\xe9.bin");
  actions.refuse.push_back({LeftTrainers::Key("j1"), outcome});
  Apply(actions);
  EXPECT_EQ(attempts_.Find(LeftTrainers::Key("j1"))->outcome->message(), "can't open caf?.bin");
}

TEST_F(AttemptRunnerTest, ShimThatEndsWithoutAnExitFile_HasSentTheStatusBefore) {
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  Apply(actions);
  const AttemptOnWorker& attempt = *attempts_.Find(LeftTrainers::Key("j1"));
  FakeTrainer trainer(left_.PathOf(attempt.spawn_id));
  Poll();
  trainer.Accept();
  TrainerReport hello;
  hello.mutable_hello()->set_ready(true);
  trainer.Report(hello);
  trainer.ReportEnd(SIGABRT);
  Poll();
  EXPECT_EQ(Reported(), "j1:STARTING") << "the shim is still there";
  // Waits for the end of the process that the pool has started as the shim, without reaping it.
  siginfo_t ended = {};
  const auto shim = static_cast<id_t>(trainers_.Find(attempt.spawn_id)->record().shim_pid());
  ASSERT_EQ(waitid(P_PID, shim, &ended, WEXITED | WNOWAIT), 0);
  trainers_.Reap();
  trainer.EndShim();
  Poll();
  EXPECT_EQ(Reported(), "j1:ENDED");
  EXPECT_EQ(attempt.outcome->reason(), v1::Reason::TRAINER_CRASHED);
  EXPECT_EQ(attempt.outcome->signal(), SIGABRT);
  EXPECT_FALSE(attempt.held.occupies_device);
}

TEST_F(AttemptRunnerTest, RefusedAttempt_HasEndedWithoutATrainer) {
  Actions actions;
  actions.refuse.push_back({LeftTrainers::Key("j1"), v1::Outcome()});
  Apply(actions);
  EXPECT_EQ(Reported(), "j1:ENDED");
  EXPECT_GT(num_changes_, 0);
  EXPECT_TRUE(trainers_.empty());
  Actions forget;
  forget.forget.push_back(LeftTrainers::Key("j1"));
  Apply(forget);
  runner_.Release(Now());
  EXPECT_TRUE(attempts_.empty());
}

TEST_F(AttemptRunnerTest, AttemptThatMayNotStart_Waits) {
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  actions.wait.push_back(LeftTrainers::Key("j2"));
  Apply(actions, /*may_start=*/false);
  EXPECT_EQ(Reported(), "j2:ASSIGNED j1:ASSIGNED");
  EXPECT_TRUE(trainers_.empty());
}

TEST_F(AttemptRunnerTest, TrainerThatCannotBeStarted_FailsTheAttempt) {
  std::ofstream(left_.state_folder() + "/spawn") << "a file where a folder should be";
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  Apply(actions);
  EXPECT_EQ(Reported(), "j1:ENDED");
  const AttemptOnWorker& attempt = *attempts_.Find(LeftTrainers::Key("j1"));
  EXPECT_EQ(attempt.outcome->reason(), v1::Reason::DEVICE_ERROR);
  EXPECT_FALSE(attempt.held.occupies_device);
}

TEST_F(AttemptRunnerTest, TrainerThatCannotUseItsDevice_MakesItUnhealthyAlsoIfItRunsAnAttempt) {
  devices_.emplace_back().set_id("cpu");
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  TrainerReport report;
  report.mutable_hello()->set_device_error("no driver");
  trainer.Report(report);
  Poll();
  trainers_.MarkUnusable(&devices_);
  EXPECT_EQ(devices_[0].unhealthy_reason(), "no driver");
  EXPECT_FALSE(attempts_.Find(LeftTrainers::Key("j1"))->held.killed) << "it reports the outcome by itself";
}

TEST_F(AttemptRunnerTest, TrainerThatEndsBeforeItIsReady_MakesItsDeviceUnhealthyAndIsNotTheJobsFault) {
  devices_.emplace_back().set_id("cpu");
  Actions actions;
  actions.start.push_back(StartOf("j1"));
  actions.start[0].directive.mutable_start_from()->set_step(30);
  Apply(actions);
  const AttemptOnWorker& attempt = *attempts_.Find(LeftTrainers::Key("j1"));
  left_.End(attempt.spawn_id, 0, 127);
  Poll();
  EXPECT_EQ(Reported(), "j1:ENDED");
  EXPECT_EQ(attempt.outcome->reason(), v1::Reason::DEVICE_ERROR);
  EXPECT_EQ(attempt.outcome->last_step(), 30);
  EXPECT_EQ(attempt.outcome->message(),
            "the worker can't start a trainer: the trainer ended before it was ready, with exit code 127");
  trainers_.MarkUnusable(&devices_);
  EXPECT_EQ(devices_[0].unhealthy_reason(), "the trainer ended before it was ready, with exit code 127");
}

TEST_F(AttemptRunnerTest, AttemptThatIsNotAssignedHereAnyMore_IsKilled) {
  FakeTrainer trainer = AddWarm();
  StartOn(trainer, "j1");
  Actions actions;
  actions.kill.push_back(LeftTrainers::Key("j1"));
  Apply(actions);
  trainer.NextShimCommand();  // skip the command with the lease
  EXPECT_TRUE(trainer.NextShimCommand().kill());
  EXPECT_TRUE(attempts_.Find(LeftTrainers::Key("j1"))->held.killed);
}

}  // namespace
}  // namespace ampd::agent
