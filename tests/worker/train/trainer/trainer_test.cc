// Tests of the real ampd-trainer with a fake agent.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/io/file.h"
#include "tests/gunzip.h"
#include "tests/host_gpu.h"
#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Makes the optimizer keep more kinds of state: averaged weights, groups of parameters and, in bf16, weights without
// fp32 masters.
void KeepMoreState(v1::JobSpec& spec) {
  spec.mutable_optimizer()->set_ema_decay(0.75);
  v1::ParameterGroup& biases = *spec.mutable_optimizer()->add_groups();
  biases.set_match("*.bias");
  biases.set_learning_rate(0.02);
  biases.set_weight_decay(0);
  if (spec.precision().preset() == "bf16") {
    spec.mutable_precision()->set_master(v1::PrecisionPolicy::none);
    spec.mutable_precision()->set_stochastic_rounding(true);
    spec.mutable_precision()->set_optimizer_state(v1::PrecisionPolicy::bf16);
  }
}

TEST_F(TrainerTest, AnMlp_TrainsToItsEndAndLearns) {
  FakeAgent agent = Spawn();
  const internal::Hello hello = agent.Connect();
  EXPECT_TRUE(hello.ready());
  EXPECT_FALSE(hello.has_key());
  agent.Start(Mlp("fp32", 30));
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::FINISHED) << agent.outcome->ShortDebugString();
  EXPECT_EQ(agent.outcome->last_step(), 30);
  EXPECT_EQ(agent.steps.size(), 30u);
  EXPECT_LT(agent.steps[30].loss, agent.steps[1].loss / 2);
  EXPECT_EQ(agent.sequences.size(), agent.outcome->last_sequence());
  EXPECT_EQ(agent.sequences.rbegin()->first, agent.outcome->last_sequence());
  ASSERT_EQ(agent.evals.size(), 1u);
  EXPECT_EQ(agent.evals[0].num_samples(), 20);
  EXPECT_GT(agent.evals[0].accuracy(), 0.8);
  ASSERT_EQ(agent.checkpoints.size(), 5u);  // Steps 7, 14, 21, 28 and 30.
  for (const auto& [step, after] : agent.checkpoint_after) {
    EXPECT_GE(after, agent.sequence_of[step]) << "the telemetry of its steps goes before the checkpoint of " << step;
    EXPECT_TRUE(step == 30 || after < agent.sequence_of[step + 1]) << "and no other: " << step;
  }
  EXPECT_EQ(agent.outcome_after, agent.outcome->last_sequence());
  const v1::FinalMetrics& metrics = agent.outcome->final_metrics();
  EXPECT_EQ(metrics.state_hash(), agent.checkpoints.back().state_hash());
  EXPECT_EQ(metrics.state_hash().size(), 64u);
  EXPECT_GT(metrics.steps_per_second(), 0);
  EXPECT_GT(metrics.peak_memory_bytes(), 40 * 12 * 4);
  EXPECT_FALSE(metrics.emulated());
}

TEST_F(TrainerTest, TheWaitForAStepsBatch_IsAPartOfTheStep) {
  const StartAttempt start = Mlp("fp32", 20);
  const auto agent = RunToOutcome(start, /*steps_ahead=*/0);
  ASSERT_EQ(agent->costs.size(), 20u);
  for (const auto& [step, cost] : agent->costs) {
    const double seconds = start.spec().data().batch_size() / static_cast<double>(cost.samples_per_second);
    EXPECT_GT(cost.data_wait_seconds, 0) << "step " << step;
    EXPECT_LT(cost.data_wait_seconds, seconds) << "step " << step;
  }
}

TEST_F(TrainerTest, TheWorkOfAStep_IsCountedFromTheModel) {
  StartAttempt start = Mlp("fp32", 5);
  start.mutable_spec()->mutable_train()->set_gradient_accumulation(2);
  const auto agent = RunToOutcome(start);
  const v1::FinalMetrics& metrics = agent->outcome->final_metrics();
  EXPECT_GT(metrics.flops_per_step(), 0);
  EXPECT_FALSE(metrics.has_mfu()) << "ampd knows no peak rate of a CPU";
  EXPECT_FALSE(metrics.has_gpu_use());
  const auto batch = static_cast<double>(start.spec().data().batch_size());
  for (const auto& [step, cost] : agent->costs) {
    const double expected = metrics.flops_per_step() / batch * static_cast<double>(cost.samples_per_second);
    EXPECT_NEAR(cost.flops_per_second / expected, 1, 1e-5) << "step " << step;
  }
  start.mutable_spec()->mutable_train()->clear_gradient_accumulation();
  start.mutable_key()->set_job_id("j-whole");
  EXPECT_EQ(RunToOutcome(start)->outcome->final_metrics().flops_per_step(), metrics.flops_per_step());
}

TEST_F(TrainerTest, ALenet_TrainsInEveryPrecision) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    StartAttempt start = Mlp(precision, 12);
    v1::LenetSpec& lenet = *start.mutable_spec()->mutable_model()->mutable_lenet();
    lenet.set_image_size(8);
    lenet.set_num_classes(3);
    lenet.set_hidden(8);
    lenet.add_widths(4);
    start.mutable_key()->set_job_id(absl::StrCat("j-", precision));
    Synthesise(*start.mutable_spec()->mutable_data()->mutable_train()->mutable_synthetic(), {1, 8, 8}, 40);
    Synthesise(*start.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic(), {1, 8, 8}, 20);
    const Outcome outcome = Run(start);
    EXPECT_EQ(outcome.kind(), Outcome::FINISHED) << precision << ": " << outcome.ShortDebugString();
    EXPECT_EQ(outcome.final_metrics().emulated(), std::string(precision) == "fp16");
    EXPECT_GT(outcome.final_metrics().eval_accuracy(), 0.5) << precision;
  }
}

TEST_F(TrainerTest, AMemoryBudget_ChangesNoNumberAndSaysWhenItIsTooSmall) {
  StartAttempt start = Mlp("fp32", 12);
  FakeAgent plain = Spawn();
  plain.Connect();
  plain.Start(start);
  Finish(plain);
  start.mutable_key()->set_job_id("j-budget");
  start.mutable_spec()->mutable_train()->set_memory_budget_bytes(1);
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(start);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::FINISHED) << agent.outcome->ShortDebugString();
  EXPECT_EQ(agent.steps, plain.steps);
  const auto told = std::find_if(agent.events.begin(), agent.events.end(), [](const v1::Event& event) {
    return event.message().find("train.memory_budget_bytes is 1; training needs ") != std::string::npos;
  });
  EXPECT_NE(told, agent.events.end());
}

TEST_F(TrainerTest, ABatchThatIsLargerThanTheData_IsWarnedOfWithBothNumbers) {
  StartAttempt start = Mlp("fp32", 2);
  start.mutable_spec()->mutable_data()->set_batch_size(4096);
  const int64_t num_samples = start.spec().data().train().synthetic().num_samples();
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(start);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::FINISHED) << agent.outcome->ShortDebugString();
  const std::string warning = absl::StrCat("data.batch_size is 4096, but data.train has ", num_samples,
                                           " samples; each step trains with ", num_samples);
  EXPECT_TRUE(std::any_of(agent.events.begin(), agent.events.end(), [&warning](const v1::Event& event) {
    return event.kind() == v1::Event::WARNING && event.message() == warning;
  }));
}

TEST_F(TrainerTest, AnAttemptForAGpu_OnAHostWithoutADriver_IsADeviceError) {
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) {
    GTEST_SKIP() << "this host has a CUDA driver";
  }
  StartAttempt start = Mlp("bf16", 10);
  start.mutable_device()->set_id("gpu0");
  start.mutable_device()->set_kind(v1::Device::GPU);
  start.mutable_device()->set_capability_major(9);
  FakeAgent agent = Spawn("gpu0");
  EXPECT_THAT(agent.Connect().device_error(), HasSubstr("this host has no CUDA driver"));
  agent.Start(start);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::FAILED);
  EXPECT_EQ(agent.outcome->reason(), v1::Reason::DEVICE_ERROR) << agent.outcome->ShortDebugString();
  EXPECT_THAT(agent.outcome->message(), HasSubstr("this host has no CUDA driver"));
  EXPECT_TRUE(agent.steps.empty());
}

TEST_F(TrainerTest, AnAttemptThatIsPlacedOnAnotherDevice_IsADeviceError) {
  StartAttempt start = Mlp("bf16", 10);
  start.mutable_device()->set_id("gpu3");
  start.mutable_device()->set_kind(v1::Device::GPU);
  const Outcome outcome = Run(start);  // The trainer is started for the CPU.
  EXPECT_EQ(outcome.reason(), v1::Reason::DEVICE_ERROR) << outcome.ShortDebugString();
  EXPECT_EQ(outcome.message(), "the attempt is placed on gpu3 and this trainer computes on cpu");
}

// A test for one preset, so that a failure with one preset on a GPU does not end the tests of the others.
class TrainerGpuTest : public TrainerTest, public testing::WithParamInterface<const char*> {};

TEST_P(TrainerGpuTest, AnAttemptForAGpu_TrainsThere) {
  if (!HostHasGpu()) {
    GTEST_SKIP() << kNeedsGpu;
  }
  StartAttempt start = Mlp(GetParam(), 30);
  start.mutable_device()->set_id("gpu0");
  start.mutable_device()->set_kind(v1::Device::GPU);
  start.mutable_device()->set_capability_major(9);
  FakeAgent agent = Spawn("gpu0");
  agent.Connect();
  agent.Start(start);
  Finish(agent);
  ASSERT_EQ(agent.outcome->kind(), Outcome::FINISHED) << agent.outcome->ShortDebugString();
  EXPECT_FALSE(agent.outcome->final_metrics().emulated());
  EXPECT_GT(agent.outcome->final_metrics().eval_accuracy(), 0.8);
  EXPECT_GT(agent.outcome->final_metrics().peak_memory_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Presets, TrainerGpuTest, testing::Values("fp32", "tf32", "bf16", "fp16"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

// A preset, and the number of a round. Each round has its own seed. In round 2 the optimizer keeps more state.
using ResumeCase = std::tuple<const char*, int>;
class TrainerResumeTest : public TrainerTest, public testing::WithParamInterface<ResumeCase> {};

// A trainer is killed at a random step. Another trainer resumes from the last checkpoint that the killed trainer
// reported to the agent.
TEST_P(TrainerResumeTest, KilledAndResumed_EveryNumberIsThatOfTheRunNeverInterrupted) {
  const auto& [precision, round] = GetParam();
  const uint64_t seed = 20260101 + static_cast<uint64_t>(round);
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  constexpr int64_t kSteps = 60;
  StartAttempt start = Mlp(precision, kSteps);
  start.mutable_spec()->mutable_train()->set_seed(random());
  start.mutable_spec()->mutable_model()->mutable_mlp()->add_hidden(16);  // Only inner layers compute in FP8.
  if (round == 2) {
    KeepMoreState(*start.mutable_spec());
  }
  start.mutable_key()->set_job_id("j-whole");
  FakeAgent whole = Spawn();
  whole.Connect();
  whole.Start(start);
  Finish(whole);
  ASSERT_EQ(whole.outcome->kind(), Outcome::FINISHED) << whole.outcome->ShortDebugString();
  start.mutable_key()->set_job_id("j-killed");
  FakeAgent killed = Spawn();
  killed.Connect();
  killed.Start(start);
  const int64_t at = 8 + static_cast<int64_t>(random() % 40);
  killed.ReadUntil([&] { return killed.steps.count(at) > 0 && !killed.checkpoints.empty(); });
  killed.Kill(SIGKILL);
  EXPECT_EQ(killed.WaitForExit(), -SIGKILL);
  FakeAgent resumed = Spawn();
  resumed.Connect();
  start = Resumed(start, killed.checkpoints.back());
  resumed.Start(start);
  Finish(resumed);
  ASSERT_EQ(resumed.outcome->kind(), Outcome::FINISHED) << resumed.outcome->ShortDebugString();
  EXPECT_EQ(resumed.steps.size(), static_cast<size_t>(kSteps - start.start_from().step()));
  for (const auto& [step, numbers] : resumed.steps) {
    const FakeAgent::Step& expected = whole.steps[step];
    if (std::isfinite(expected.grad_norm)) {
      EXPECT_EQ(numbers, expected) << "step " << step;
    }
  }
  EXPECT_EQ(resumed.outcome->final_metrics().state_hash(), whole.outcome->final_metrics().state_hash());
  EXPECT_EQ(resumed.evals.back().loss(), whole.evals.back().loss());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TrainerResumeTest,
    testing::Combine(testing::Values("fp32", "bf16", "fp16", "fp8-delayed"), testing::Range(0, 3)),
    [](const testing::TestParamInfo<ResumeCase>& info) {
      return absl::StrCat(absl::StrReplaceAll(std::get<0>(info.param), {{"-", "_"}}), "_", std::get<1>(info.param));
    });

TEST_F(TrainerTest, ANewConnection_ReceivesEverythingThatIsNotAcknowledged) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(Mlp("fp32", 40));
  agent.ReadUntil([&] { return agent.steps.count(5) > 0 && !agent.checkpoints.empty(); });
  agent.Acknowledge(3);
  agent.Disconnect();
  agent.sequences.clear();
  agent.steps.clear();
  agent.checkpoints.clear();
  const internal::Hello hello = agent.Connect();
  EXPECT_EQ(hello.key().job_id(), "j-abc");
  agent.ReadUntil(
      [&] { return agent.outcome.has_value() && agent.sequences.contains(agent.outcome->last_sequence()); });
  // The trainer must send all telemetry from sequence 4 on without a gap. It may also send 1 to 3 again, if the
  // connection ended before the trainer read their acknowledgement.
  EXPECT_LE(agent.sequences.begin()->first, 4u);
  EXPECT_EQ(agent.sequences.rbegin()->first, agent.outcome->last_sequence());
  EXPECT_EQ(agent.sequences.size(), agent.outcome->last_sequence() - agent.sequences.begin()->first + 1);
  EXPECT_EQ(agent.checkpoints.size(), 6u);  // Steps 7, 14, 21, 28, 35 and 40.
  EXPECT_EQ(agent.order.front(), 'c') << agent.order << ": a checkpoint does not wait for a backlog";
  agent.Disconnect();
  agent.outcome.reset();
  agent.Connect();
  agent.ReadUntil([&] { return agent.order.ends_with('t'); });
  EXPECT_EQ(agent.order, "cot") << "nor does the outcome";
  EXPECT_EQ(agent.outcome_after, agent.outcome->last_sequence());
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::FINISHED);
}

TEST_F(TrainerTest, AnotherStart_IsRefusedAndTheSameIsIgnored) {
  FakeAgent agent = Spawn();
  agent.Connect();
  StartAttempt start = Mlp("fp32", 1 << 30);
  agent.Start(start);
  agent.Start(start);
  agent.ReadUntil([&] { return agent.steps.count(3) > 0; });
  start.mutable_key()->set_token("other");
  agent.Start(start);
  while (agent.Read()) {
  }
  EXPECT_EQ(agent.Connect().key().token(), "token1");
}

TEST_F(TrainerTest, Pause_LeavesWithACheckpointThatGoesOn) {
  FakeAgent agent = Spawn();
  agent.Connect();
  StartAttempt start = Mlp("bf16", 1 << 30);
  agent.Start(start);
  agent.ReadUntil([&] { return agent.steps.count(10) > 0; });
  agent.Leave(v1::Job::PAUSE, v1::Reason::USER_PAUSED);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::LEFT);
  EXPECT_EQ(agent.outcome->reason(), v1::Reason::USER_PAUSED);
  ASSERT_FALSE(agent.checkpoints.empty());
  EXPECT_EQ(agent.checkpoints.back().step(), agent.outcome->last_step());
  start = Mlp("bf16", agent.outcome->last_step() + 2, 2);
  *start.mutable_start_from() = agent.checkpoints.back();
  EXPECT_EQ(Run(start).kind(), Outcome::FINISHED);
}

TEST_F(TrainerTest, ResumedElsewhere_ItSaysWhatIsDifferentAndScalesTheLossAfreshInAnotherPrecision) {
  const auto differs = [](const FakeAgent& agent) {
    std::string text;
    for (const v1::Event& event : EventsOf(agent, v1::Event::NUMERICS_MAY_DIFFER)) {
      text += event.message();
    }
    return text;
  };
  const auto resumed = [](StartAttempt start, const v1::Checkpoint& checkpoint, int attempt) {
    start = Resumed(std::move(start), checkpoint);
    start.mutable_key()->set_attempt(attempt);
    return start;
  };
  const StartAttempt start = Mlp("fp32", 14);
  const auto began = RunToOutcome(start);
  ASSERT_EQ(began->checkpoints.size(), 2u);
  EXPECT_EQ(began->outcome->final_metrics().final_loss_scale(), 1);
  const v1::Checkpoint checkpoint = began->checkpoints[0];
  EXPECT_EQ(differs(*RunToOutcome(resumed(start, checkpoint, 2))), "");
  StartAttempt elsewhere = resumed(start, checkpoint, 3);
  elsewhere.mutable_device()->add_instruction_sets("amx_bf16");
  EXPECT_THAT(differs(*RunToOutcome(elsewhere)), HasSubstr("instruction_sets avx512_bf16 -> avx512_bf16 amx_bf16"));

  const auto scaled = RunToOutcome(resumed(Mlp("fp16", 14), checkpoint, 4));
  EXPECT_EQ(scaled->outcome->kind(), Outcome::FINISHED) << scaled->outcome->ShortDebugString();
  EXPECT_EQ(scaled->outcome->final_metrics().final_loss_scale(), 65536) << "not 1, as fp32 had it";
  EXPECT_THAT(differs(*scaled), HasSubstr("precision fp32 -> fp16"));
  const auto wide = RunToOutcome(resumed(Mlp("bf16", 21), scaled->checkpoints.back(), 5));
  EXPECT_EQ(wide->outcome->final_metrics().final_loss_scale(), 1) << "not 65536, as fp16 had it";
}

TEST_F(TrainerTest, Cancel_LeavesWithoutACheckpoint) {
  FakeAgent agent = Spawn();
  agent.Connect();
  StartAttempt start = Mlp("fp32", 1 << 30);
  start.mutable_spec()->clear_checkpoint();
  agent.Start(start);
  agent.ReadUntil([&] { return agent.steps.count(2) > 0; });
  agent.Leave(v1::Job::CANCEL, v1::Reason::USER_CANCELLED);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::LEFT);
  EXPECT_TRUE(agent.checkpoints.empty());
}

TEST_F(TrainerTest, Terminated_ItCheckpointsAndLeaves) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(Mlp("fp32", 1 << 30));
  agent.ReadUntil([&] { return agent.steps.count(2) > 0; });
  agent.Kill(SIGTERM);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::LEFT);
  EXPECT_EQ(agent.outcome->reason(), v1::Reason::WORKER_DRAINED);
  EXPECT_EQ(agent.checkpoints.back().step(), agent.outcome->last_step());
}

TEST_F(TrainerTest, TerminatedWhileWarm_ItExits) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Kill(SIGTERM);
  EXPECT_EQ(agent.WaitForExit(), 0);
}

internal::TrainerCommand LossScaleOrder(uint64_t number, double scale, int growth_interval) {
  internal::TrainerCommand command;
  v1::LiveLossScale& settings = *command.mutable_live_loss_scale();
  settings.set_scale(scale);
  settings.set_scale_number(number);
  settings.set_growth_interval(growth_interval);
  settings.set_growth_interval_number(number);
  settings.set_number(number);
  return command;
}

TEST_F(TrainerTest, ALossScaleOrder_IsInEffectAtTheNextStepAndOneEvent) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(Mlp("fp16", 1 << 30));
  agent.ReadUntil([&] { return agent.steps.count(2) > 0; });
  agent.Send(LossScaleOrder(1, 64, 3));
  agent.Send(LossScaleOrder(1, 64, 3));
  std::vector<v1::Event> set;
  agent.ReadUntil([&] {
    set = EventsOf(agent, v1::Event::LOSS_SCALE_SET);
    return !set.empty() && agent.steps.count(set[0].step() + 4) > 0;
  });
  for (int64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(agent.steps[set[0].step() + i].loss_scale, i == 4 ? 128 : 64) << i << " steps after the order";
  }
  agent.Leave(v1::Job::CANCEL, v1::Reason::USER_CANCELLED);
  Finish(agent);
  EXPECT_THAT(EventsOf(agent, v1::Event::LOSS_SCALE_SET), testing::SizeIs(1));
}

TEST_F(TrainerTest, ALossScaleOrderBeyondTheCap_IsHeldToItAndSaysSo) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Send(LossScaleOrder(1, 1e30, 2000));
  agent.Start(Mlp("fp16", 1));
  Finish(agent);
  EXPECT_EQ(agent.steps[1].loss_scale, 0x1p24);
  const std::vector<v1::Event> set = EventsOf(agent, v1::Event::LOSS_SCALE_SET);
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(
      set[0].message(),
      "the loss scale was set to 16777216, the policy's cap, because 1e+30 is beyond it; the growth interval was set "
      "to 2000 steps");
  EXPECT_EQ(set[0].attributes().at("scale"), "16777216");
  EXPECT_EQ(set[0].attributes().at("ordered_scale"), "1e+30");
}

TEST_F(TrainerTest, ALossScaleOrderWhereNoLossIsScaled_SaysThatItDoesNothing) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Send(LossScaleOrder(1, 64, 3));
  agent.Start(Mlp("bf16", 1));
  Finish(agent);
  EXPECT_EQ(agent.steps[1].loss_scale, 1);
  const std::vector<v1::Event> set = EventsOf(agent, v1::Event::LOSS_SCALE_SET);
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(set[0].message(),
            "the loss scale stays off: the job's precision, bf16, does not scale the loss, so ampctl job scale has no "
            "effect");
}

TEST_F(TrainerTest, LossScaleOrdersOfOneStep_AreBothInEffect) {
  internal::TrainerCommand interval = LossScaleOrder(1, 64, 1);
  interval.mutable_live_loss_scale()->set_growth_interval_number(2);
  interval.mutable_live_loss_scale()->set_number(2);
  internal::TrainerCommand scale = LossScaleOrder(1, 64, 1);
  scale.mutable_live_loss_scale()->clear_growth_interval_number();
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Send(scale);
  agent.Send(interval);
  agent.Start(Mlp("fp16", 3));
  Finish(agent);
  EXPECT_EQ(agent.steps[1].loss_scale, 64);
  EXPECT_EQ(agent.steps[2].loss_scale, 128);
  EXPECT_EQ(agent.steps[3].loss_scale, 256);
}

// If an attempt has applied an order to set the loss scale, the job's next attempt must not apply this order again.
// Otherwise later changes of the scale would be lost whenever another worker takes over the job.
TEST_F(TrainerTest, ALossScaleOrder_IsAppliedOnceOverTheAttemptsOfAJob) {
  FakeAgent agent = Spawn();
  agent.Connect();
  StartAttempt start = Mlp("fp16", 1 << 30);
  agent.Start(start);
  agent.ReadUntil([&] { return agent.steps.count(2) > 0; });
  agent.Send(LossScaleOrder(1, 64, 1));
  int64_t ordered = 0;
  agent.ReadUntil([&] {
    const std::vector<v1::Event> set = EventsOf(agent, v1::Event::LOSS_SCALE_SET);
    ordered = set.empty() ? 0 : set[0].step();
    return ordered > 0 && !agent.checkpoints.empty() && agent.checkpoints.back().step() > ordered + 1;
  });
  agent.Kill(SIGKILL);
  const v1::Checkpoint& checkpoint = agent.checkpoints.back();
  start = Mlp("fp16", checkpoint.step() + 2, 2);
  *start.mutable_start_from() = checkpoint;
  for (const bool is_another_job : {false, true}) {
    start.mutable_key()->set_job_id(is_another_job ? "j-clone" : "j-abc");
    FakeAgent next = Spawn();
    next.Connect();
    next.Send(LossScaleOrder(1, 64, 1));
    next.Start(start);
    Finish(next);
    ASSERT_EQ(next.outcome->kind(), Outcome::FINISHED) << next.outcome->ShortDebugString();
    const double first = next.steps[checkpoint.step() + 1].loss_scale;
    EXPECT_EQ(first, is_another_job ? 64 : std::ldexp(64, static_cast<int>(checkpoint.step() - ordered)));
    EXPECT_THAT(EventsOf(next, v1::Event::LOSS_SCALE_SET), testing::SizeIs(is_another_job ? 1 : 0));
  }
}

TEST_F(TrainerTest, ARequestForGradients_ReportsWhatTheCanaryLastSawOfLayersInFp8) {
  FakeAgent agent = Spawn();
  agent.Connect();
  internal::StartAttempt start = Mlp("fp8", 1 << 30);
  start.mutable_spec()->mutable_model()->mutable_mlp()->add_hidden(16);
  agent.Start(start);
  agent.ReadUntil([&] { return !agent.steps.empty(); });
  internal::TrainerCommand command;
  command.mutable_sample_gradients()->set_number(1);
  agent.Send(command);
  agent.ReadUntil([&] {
    agent.Acknowledge(agent.sequences.rbegin()->first);
    return !EventsOf(agent, v1::Event::GRADIENTS_SAMPLED).empty();
  });
  agent.Leave(v1::Job::CANCEL, v1::Reason::USER_CANCELLED);
  Finish(agent);
  const v1::Event answer = EventsOf(agent, v1::Event::GRADIENTS_SAMPLED)[0];
  ASSERT_EQ(answer.gradients().modules_size(), 3);
  for (const auto& module : answer.gradients().modules()) {
    EXPECT_EQ(module.has_fp8(), module.module() == "layers.2") << module.module();
  }
  const v1::GradientSamples::Fp8& fp8 = answer.gradients().modules(1).fp8();
  EXPECT_EQ(fp8.step() % 1000, 1) << "of a step of the canary";
  EXPECT_LE(fp8.step(), answer.step());
  EXPECT_LT(answer.step() - fp8.step(), 1000) << "of the last one";
  for (const double error : {fp8.forward_error(), fp8.input_gradient_error(), fp8.weight_gradient_error()}) {
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 0.25);
  }
  EXPECT_FALSE(fp8.demoted());
}

TEST_F(TrainerTest, ProfileRequest_GetsATraceOfTheRequestedNumberOfSteps) {
  StartAttempt start = Mlp("bf16", 1 << 30);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(0);  // A checkpoint would end a profile early.
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(start);
  const auto answers = [&] { return EventsOf(agent, v1::Event::PROFILED); };
  for (const uint64_t number : {1, 2}) {
    internal::TrainerCommand command;
    command.mutable_profile()->set_number(number);
    command.mutable_profile()->set_num_steps(3);
    agent.Send(command);
    agent.Send(command);  // The same request again, which must have no effect.
    agent.ReadUntil([&] {
      if (!agent.sequences.empty()) {
        agent.Acknowledge(agent.sequences.rbegin()->first);
      }
      return answers().size() >= number;
    });
  }
  agent.Leave(v1::Job::CANCEL, v1::Reason::USER_CANCELLED);
  Finish(agent);
  ASSERT_EQ(answers().size(), 2u);
  const v1::Event event = answers()[0];
  EXPECT_EQ(event.message(), absl::StrCat("profiled 3 steps, up to step ", event.step()));
  EXPECT_EQ(event.attributes().at("files"), "1");
  ASSERT_EQ(agent.samples.size(), 2u);
  EXPECT_EQ(agent.samples[0].file_name(), "profile-1.json.gz");
  EXPECT_EQ(agent.samples[0].step(), event.step());
  EXPECT_EQ(absl::StrCat(agent.samples[0].content().size()), event.attributes().at("bytes"));
  const std::string trace = Gunzip(agent.samples[0].content());
  for (int64_t step = event.step() - 2; step <= event.step(); ++step) {
    EXPECT_THAT(trace, HasSubstr(absl::StrCat("ProfilerStep#", step, "\"")));
  }
  EXPECT_THAT(trace, testing::Not(HasSubstr(absl::StrCat("ProfilerStep#", event.step() + 1, "\""))));
  EXPECT_THAT(trace, HasSubstr("\"aten::addmm\""));
  EXPECT_THAT(trace, HasSubstr("AddmmBackward0"));
}

TEST_F(TrainerTest, AProfile_EndsBeforeACheckpointAndWithTheTraining) {
  // The request comes before the attempt starts, so that step 1 is the first step of the profile.
  StartAttempt start = Mlp("fp32", 10);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(4);
  FakeAgent agent = Spawn();
  agent.Connect();
  internal::TrainerCommand command;
  command.mutable_profile()->set_number(1);
  command.mutable_profile()->set_num_steps(100);
  agent.Send(command);
  agent.Start(start);
  Finish(agent);
  const std::vector<v1::Event> events = EventsOf(agent, v1::Event::PROFILED);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].step(), 4);
  EXPECT_EQ(events[0].attributes().at("steps"), "4");

  start.mutable_spec()->mutable_train()->set_steps(3);
  start.mutable_key()->set_job_id("j-short");
  FakeAgent next = Spawn();
  next.Connect();
  next.Send(command);
  next.Start(start);
  Finish(next);
  const std::vector<v1::Event> at_the_end = EventsOf(next, v1::Event::PROFILED);
  ASSERT_EQ(at_the_end.size(), 1u);
  EXPECT_EQ(at_the_end[0].attributes().at("steps"), "3");
  EXPECT_EQ(next.samples.size(), 1u);
}

TEST_F(TrainerTest, ARequestForGradients_IsAnsweredOnceByTheNextStepInEveryFormat) {
  for (const auto& [precision, dtype] : {std::pair("fp16", "float16"), {"bf16", "bfloat16"}, {"fp32", "float32"}}) {
    StartAttempt start = Mlp(precision, 1 << 30);
    start.mutable_key()->set_job_id(absl::StrCat("j-", precision));  // Gives each precision its own checkpoint folder.
    FakeAgent agent = Spawn();
    agent.Connect();
    agent.Start(start);
    std::vector<v1::Event> answers;
    const auto answered = [&](size_t count) {
      answers = EventsOf(agent, v1::Event::GRADIENTS_SAMPLED);
      return answers.size() >= count;
    };
    for (const uint64_t number : {1, 2}) {
      internal::TrainerCommand command;
      command.mutable_sample_gradients()->set_number(number);
      agent.Send(command);
      agent.Send(command);
      agent.ReadUntil([&] {
        if (!agent.sequences.empty()) {
          agent.Acknowledge(
              agent.sequences.rbegin()->first);  // Otherwise the trainer's outbox becomes full and the trainer waits.
        }
        return answered(number);
      });
    }
    agent.Leave(v1::Job::CANCEL, v1::Reason::USER_CANCELLED);
    Finish(agent);
    answered(0);
    ASSERT_EQ(answers.size(), 2u) << precision << ": each request has one answer";
    const v1::GradientSamples& gradients = answers[0].gradients();
    EXPECT_EQ(gradients.loss_scale(), agent.steps[answers[0].step()].loss_scale);
    ASSERT_EQ(gradients.modules_size(), 2);
    EXPECT_EQ(gradients.modules(0).module(), "layers.2") << "the backward pass meets the last layer first";
    EXPECT_EQ(gradients.modules(1).module(), "layers.0");
    EXPECT_EQ(gradients.modules(0).num_elements(), 16 * 3 + 3);
    EXPECT_EQ(gradients.modules(1).num_elements(), 12 * 16 + 16);
    for (const auto& module : gradients.modules()) {
      EXPECT_EQ(module.dtype(), dtype);
      EXPECT_EQ(std::accumulate(module.counts().begin(), module.counts().end(), int64_t{0}),
                module.num_elements() - module.num_zero() - module.num_non_finite());
      EXPECT_LT(module.num_zero(), module.num_elements());
    }
    EXPECT_THAT(answers[0].message(), HasSubstr("(2 modules)"));
  }
}

TEST_F(TrainerTest, MissingData_IsADataErrorThatNamesTheFile) {
  StartAttempt start = Mlp("fp32", 5);
  (*start.mutable_data_roots())["mnist"] = root_.string();
  v1::IdxSource& idx = *start.mutable_spec()->mutable_data()->mutable_train()->mutable_idx();
  idx.set_images("mnist/none");
  idx.set_labels("mnist/none");
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.kind(), Outcome::FAILED);
  EXPECT_EQ(outcome.reason(), v1::Reason::DATA_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("data.train.idx.images \"mnist/none\": No such file"));
  EXPECT_THAT(outcome.message(), testing::Not(HasSubstr(root_.string())));
}

// While this test holds a write lease on the file (F_SETLEASE), no other process can open the file.
TEST_F(TrainerTest, HostThatCanNotReadNow_IsNotTheDatasFault) {
  signal(SIGIO, SIG_IGN);  // The kernel sends SIGIO when another process opens the file.
  const UniqueFd leased(open((root_ / "images").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(fcntl(leased.get(), F_SETLEASE, F_WRLCK), 0) << std::strerror(errno);
  StartAttempt start = Mlp("fp32", 5);
  (*start.mutable_data_roots())["mnist"] = root_.string();
  v1::IdxSource& idx = *start.mutable_spec()->mutable_data()->mutable_train()->mutable_idx();
  idx.set_images("mnist/images");
  idx.set_labels("mnist/images");
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.kind(), Outcome::FAILED);
  EXPECT_EQ(outcome.reason(), v1::Reason::DEVICE_ERROR);
  EXPECT_THAT(outcome.message(),
              HasSubstr("data.train.idx.images \"mnist/images\": the worker's host can't read it now: "
                        "Resource temporarily unavailable"));
}

// The trainer must refuse a file that other users may not read, even if the trainer itself can read it, for example as
// root.
TEST_F(TrainerTest, FileThatOthersMayNotRead_IsOpenedForNoJob) {
  StartAttempt start = Mlp("fp32", 5);
  (*start.mutable_data_roots())["root"] = root_.string();
  const auto error_of = [&](const std::function<void(v1::JobSpec&)>& name_file) {
    StartAttempt named = start;
    name_file(*named.mutable_spec());
    const Outcome outcome = Run(named);
    EXPECT_EQ(outcome.reason(), v1::Reason::DATA_ERROR) << outcome.message();
    return outcome.message();
  };
  std::ofstream(root_ / "f") << "content";
  const std::pair<const char*, std::function<void(v1::JobSpec&)>> fields[] = {
      {"data.train.idx.images",
       [](v1::JobSpec& spec) {
         spec.mutable_data()->mutable_train()->mutable_idx()->set_images("root/f");
         spec.mutable_data()->mutable_train()->mutable_idx()->set_labels("root/f");
       }},
      {"data.train.npz.file",
       [](v1::JobSpec& spec) { spec.mutable_data()->mutable_train()->mutable_npz()->set_file("root/f"); }},
      {"data.eval.safetensors.file",
       [](v1::JobSpec& spec) { spec.mutable_data()->mutable_eval()->mutable_safetensors()->set_file("root/f"); }},
      {"model.initial_weights", [](v1::JobSpec& spec) { spec.mutable_model()->set_initial_weights("root/f"); }},
      {"model.exported.path", [](v1::JobSpec& spec) { spec.mutable_model()->mutable_exported()->set_path("root/f"); }}};
  for (const auto& [field, name_file] : fields) {
    ASSERT_EQ(chmod((root_ / "f").c_str(), 0640), 0);
    EXPECT_THAT(error_of(name_file), HasSubstr(absl::StrCat(field,
                                                            " \"root/f\": others may not read it (mode 0640), and a "
                                                            "worker opens only what all who submit jobs may read; in "
                                                            "its data root: chmod o+r f")));
    ASSERT_EQ(chmod((root_ / "f").c_str(), 0644), 0);
    EXPECT_THAT(error_of(name_file), Not(HasSubstr("others may not")));
  }
  ASSERT_EQ(chmod((root_ / "f").c_str(), 0640), 0);
  struct stat status = {};
  ASSERT_EQ(stat((root_ / "f").c_str(), &status), 0);
  start.set_data_group(status.st_gid);
  EXPECT_THAT(error_of(fields[0].second), Not(HasSubstr("others may not"))) << "members of the data group may read it";
}

TEST_F(TrainerTest, ALenetOnFashionMnist_Learns) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "Debian's dataset-fashion-mnist is not installed";
  }
  for (const char* precision : {"fp32", "bf16"}) {
    StartAttempt start = Mlp(precision, 60);
    (*start.mutable_data_roots())["fashion"] = "/usr/share/datasets/fashion-mnist";
    v1::JobSpec& spec = *start.mutable_spec();
    spec.mutable_model()->mutable_lenet()->add_widths(8);
    v1::IdxSource& train = *spec.mutable_data()->mutable_train()->mutable_idx();
    train.set_images("fashion/train-images-idx3-ubyte.gz");
    train.set_labels("fashion/train-labels-idx1-ubyte.gz");
    train.set_mean(0.286);
    train.set_std(0.353);
    train.set_limit(4000);
    v1::IdxSource& eval = *spec.mutable_data()->mutable_eval()->mutable_idx();
    eval = train;
    eval.set_images("fashion/t10k-images-idx3-ubyte.gz");
    eval.set_labels("fashion/t10k-labels-idx1-ubyte.gz");
    eval.set_limit(500);
    spec.mutable_data()->set_batch_size(64);
    start.mutable_key()->set_job_id(absl::StrCat("j-", precision));
    const Outcome outcome = Run(start);
    EXPECT_EQ(outcome.kind(), Outcome::FINISHED) << outcome.ShortDebugString();
    EXPECT_GT(outcome.final_metrics().eval_accuracy(), 0.6) << precision;
  }
}

TEST_F(TrainerTest, CheckpointSegments_ChangeNoBitOfTheOutcome) {
  StartAttempt start = Mlp("bf16", 14);
  const Outcome plain = Run(start);
  ASSERT_EQ(plain.kind(), Outcome::FINISHED) << plain.ShortDebugString();
  start = Mlp("bf16", 14, 2);
  start.mutable_spec()->mutable_train()->add_checkpoint_segments("layers.[01]");
  start.mutable_spec()->mutable_train()->add_checkpoint_segments("layers.2");
  EXPECT_EQ(Run(start).final_metrics().state_hash(), plain.final_metrics().state_hash());
}

TEST_F(TrainerTest, ACheckpointSegmentThatTheModelLacks_IsASpecError) {
  StartAttempt start = Mlp("fp32", 3);
  start.mutable_spec()->mutable_train()->add_checkpoint_segments("transformer.h.*");
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.kind(), Outcome::FAILED);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("\"transformer.h.*\" matches no module"));
}

TEST_F(TrainerTest, AModelThatTheDataDoesNotFit_IsASpecError) {
  StartAttempt start = Mlp("fp32", 5);
  start.mutable_spec()->mutable_model()->mutable_mlp()->set_in_features(13);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("12 elements and the model takes 13"));
}

TEST_F(TrainerTest, ImagesWithTheirChannelsElsewhere_AreASpecError) {
  StartAttempt start = Mlp("fp32", 5);
  v1::JobSpec& spec = *start.mutable_spec();
  v1::LenetSpec& lenet = *spec.mutable_model()->mutable_lenet();
  lenet.set_in_channels(3);
  lenet.set_image_size(8);
  for (v1::DataSource* source : {spec.mutable_data()->mutable_train(), spec.mutable_data()->mutable_eval()}) {
    source->mutable_synthetic()->clear_shape();
    for (const int64_t size : {8, 8, 3}) {
      source->mutable_synthetic()->add_shape(size);
    }
  }
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("an image is (8, 8, 3) and the model takes (3, 8, 8)"));
}

TEST_F(TrainerTest, ALossThatIsNotFinite_EndsTheAttempt) {
  StartAttempt start = Mlp("fp32", 50);
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(1e30);
  EXPECT_EQ(Run(start).reason(), v1::Reason::NONFINITE_LOSS);
}

// Sets a loss scale that does not change. The tests use scales under which every step overflows.
StartAttempt WithStaticScale(StartAttempt start, double scale) {
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(scale);
  return start;
}

TEST_F(TrainerTest, ALossScaleThatStaysAndOnlySkips_EndsTheAttempt) {
  const Outcome outcome = Run(WithStaticScale(Mlp("fp16", 500), 1e30));
  EXPECT_EQ(outcome.reason(), v1::Reason::LOSS_SCALE_COLLAPSED);
  EXPECT_EQ(outcome.last_step(), 101);
  EXPECT_THAT(outcome.message(), HasSubstr("the last 101 steps were all skipped, and the loss scale stayed at 1e+30"));
}

TEST_F(TrainerTest, AJobThatAppliedNoStep_HasNotSucceeded) {
  const Outcome outcome = Run(WithStaticScale(Mlp("fp16", 5), 1e30));
  EXPECT_EQ(outcome.kind(), Outcome::FAILED);
  EXPECT_EQ(outcome.reason(), v1::Reason::LOSS_SCALE_COLLAPSED);
  EXPECT_THAT(outcome.message(), HasSubstr("all 5 steps were skipped"));
}

TEST_F(TrainerTest, OnlySkippingThatIsOnlyToWarn_IsAnEvent) {
  StartAttempt start = WithStaticScale(Mlp("fp16", 150), 1e30);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::WARN);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED);
  EXPECT_THAT(StepsOf(EventsOf(*agent, v1::Event::DIVERGENCE)), testing::ElementsAre(101, 150));
}

TEST_F(TrainerTest, ADamagedCheckpoint_IsACheckpointError) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(Mlp("fp32", 7));
  Finish(agent);
  StartAttempt start = Mlp("fp32", 9, 2);
  *start.mutable_start_from() = agent.checkpoints.back();
  const std::string file = absl::StrCat(start.checkpoint_root(), "/", start.start_from().path(), "/model.safetensors");
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
  stream.close();
  EXPECT_EQ(Run(start).reason(), v1::Reason::CHECKPOINT_ERROR);
}

TEST_F(TrainerTest, ACheckpointRootThatIsAFile_IsACheckpointErrorWithoutItsPath) {
  StartAttempt start = Mlp("fp32", 9);
  start.set_checkpoint_root((root_ / "occupied").string());
  std::ofstream(root_ / "occupied") << "x";
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::CHECKPOINT_ERROR) << outcome.ShortDebugString();
  EXPECT_THAT(outcome.message(), testing::Not(HasSubstr(root_.string())));
}

}  // namespace
}  // namespace ampd::train
