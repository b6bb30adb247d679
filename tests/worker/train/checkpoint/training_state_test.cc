#include "worker/train/checkpoint/training_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "ATen/ops/ones.h"
#include "base/error.h"
#include "base/random.h"
#include "worker/train/checkpoint/tensor_file.h"

namespace ampd::train {
namespace {

class TrainingStateTest : public testing::Test {
 protected:
  // Saves the state and returns the checkpoint as it would be loaded.
  static LoadedCheckpoint Saved(const TrainingState& state) {
    LoadedCheckpoint checkpoint;
    checkpoint.step = state.step;
    checkpoint.state = ScalarsOf(state);
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const TensorFile file = TensorFile::Of({{"weight", at::ones({2})}}).value();
      for (const std::string_view part : file.parts()) {
        checkpoint.files[name].append(part);
      }
    }
    return checkpoint;
  }
};

TEST_F(TrainingStateTest, EveryScalarComesBackBitForBit) {
  SeededRandom random(5);
  const auto count = [&random] { return static_cast<int>(random.Next() % 100); };
  const auto real = [&random] { return static_cast<float>(random.Next() >> 40) * 0x1p-22f; };
  for (int round = 0; round < 50; ++round) {
    TrainingState state{.step = 7, .train_loss = real(), .cursor = {.epoch = count(), .position = count()}};
    state.num_replays = count();
    state.underflow_reported = round % 2 == 1;
    state.fp8_underflow_reported = round % 3 == 1;
    state.activations_reported = round % 4 == 2;
    state.not_finite_reported = round % 5 == 2;
    state.uneven_reported = round % 3 == 2;
    for (int i = count(); i > 0; --i) {
      state.monitor.losses.push_back(real());
      state.monitor.skips.push_back(random.Next() % 2 == 0);
    }
    state.monitor.first_level = real();
    for (int* counter : {&state.monitor.num_first, &state.monitor.num_not_finite, &state.monitor.num_stuck,
                         &state.monitor.num_spiking, &state.monitor.num_diverged, &state.monitor.range_quiet_steps,
                         &state.monitor.spike_quiet_steps, &state.monitor.skips_quiet_steps}) {
      *counter = count();
    }
    state.monitor.not_finite_reported = round % 2 == 0;
    state.monitor.floor_reported = round % 3 == 0;
    state.recovery = {.num_rollbacks = count(),
                      .num_lowerings = count(),
                      .raise = {.preset = round % 2 == 0 ? "bf16" : "", .fp32_modules = {}},
                      .num_quiet_steps = count()};
    for (int i = round % 3; i > 0; --i) {
      state.recovery.raise.fp32_modules.push_back("layers." + std::to_string(i));
      state.recovery.raise.bf16_modules.push_back("layers." + std::to_string(10 * i));
    }
    state.plateau = {.best_loss = round == 0 ? std::numeric_limits<double>::infinity() : real() / 3.0,
                     .num_bad_evals = count(),
                     .cooldown_left = count(),
                     .rate_factor = 0.1 * real()};
    if (round % 3 == 2) {
      state.best_eval_loss = real() / 3.0;
    }
    if (round % 3 == 0) {
      state.early_stopping = {.best = round % 2 == 0 ? std::optional(real() / 3.0) : std::nullopt,
                              .best_step = round % 2 == 0 ? count() : 0,
                              .num_bad_evals = count()};
    }
    state.evaluation_pending = round % 4 == 1;
    state.sample_pending = round % 4 == 2;
    if (round % 3 == 1) {
      state.phase_losses = {{"discriminator", real()}, {"generator", real()}};
    }
    state.engine.scaler = {
        .scale = real(), .growth_tracker = count(), .hysteresis_left = count(), .growth_interval = count()};
    LoadedCheckpoint saved = Saved(state);
    const auto back = StateOf(saved);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->train_loss, state.train_loss);
    EXPECT_EQ(back->cursor, state.cursor);
    EXPECT_EQ(back->num_replays, state.num_replays);
    EXPECT_EQ(back->underflow_reported, state.underflow_reported);
    EXPECT_EQ(back->fp8_underflow_reported, state.fp8_underflow_reported);
    EXPECT_EQ(back->activations_reported, state.activations_reported);
    EXPECT_EQ(back->not_finite_reported, state.not_finite_reported);
    EXPECT_EQ(back->uneven_reported, state.uneven_reported);
    EXPECT_EQ(back->monitor, state.monitor);
    EXPECT_EQ(back->recovery, state.recovery);
    EXPECT_EQ(back->plateau, state.plateau);
    EXPECT_EQ(back->best_eval_loss, state.best_eval_loss);
    EXPECT_EQ(back->early_stopping, state.early_stopping);
    EXPECT_EQ(back->evaluation_pending, state.evaluation_pending);
    EXPECT_EQ(back->sample_pending, state.sample_pending);
    EXPECT_EQ(back->phase_losses, state.phase_losses);
    EXPECT_EQ(back->engine.scaler, state.engine.scaler);
  }
}

TEST_F(TrainingStateTest, StepsThatPhasesAppliedComeBackByTheirNames) {
  TrainingState state{.step = 7};
  state.engine.applied_by_phase = {{"generator", 5}, {"the.critic", 123456789012}};
  LoadedCheckpoint saved = Saved(state);
  const auto back = StateOf(saved);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->engine.applied_by_phase, state.engine.applied_by_phase);
  EXPECT_TRUE(saved.files.empty()) << "room for what was made of them";
  LoadedCheckpoint broken = Saved(state);
  broken.state["phase.generator.applied_steps"] = "many";
  EXPECT_EQ(ReasonOf(StateOf(broken).status()), "CHECKPOINT_ERROR");
}

TEST_F(TrainingStateTest, OfBeforeFaultsHadTwoFlags_LetsANonFiniteNumberBeReported) {
  TrainingState state{.step = 7};
  state.activations_reported = true;
  LoadedCheckpoint checkpoint = Saved(state);
  EXPECT_EQ(checkpoint.state.at("told_activations"), "1") << "older versions read the same key";
  EXPECT_FALSE(checkpoint.state.contains("told_not_finite"));
  const auto back = StateOf(checkpoint);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->activations_reported);
  EXPECT_FALSE(back->not_finite_reported);
}

TEST_F(TrainingStateTest, OfBeforeThereWasAMonitor_BeginsWithAFreshOne) {
  TrainingState state{.step = 7};
  state.monitor.losses = {1, 2};
  LoadedCheckpoint checkpoint = Saved(state);
  std::erase_if(checkpoint.state, [](const auto& entry) {
    return entry.first == "num_replays" || entry.first.rfind("monitor.", 0) == 0 ||
           entry.first.rfind("recovery.", 0) == 0 || entry.first.rfind("plateau.", 0) == 0;
  });
  const auto back = StateOf(checkpoint);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->monitor, MonitorState());
  EXPECT_EQ(back->recovery, RecoveryState());
  EXPECT_EQ(back->plateau, amp::PlateauState());
}

// The hash of a checkpoint must not change in jobs without early stopping. So the state must contain no keys of early
// stopping in such jobs.
TEST_F(TrainingStateTest, EarlyStopping_IsWrittenOnlyForAJobThatHasIt) {
  const auto num_keys = [](const TrainingState& state) { return ScalarsOf(state).size(); };
  const size_t num_without = num_keys({.step = 7});
  EXPECT_EQ(num_keys({.step = 7, .early_stopping = EarlyStoppingState()}), num_without + 1);
  LoadedCheckpoint broken = Saved({.step = 7, .early_stopping = EarlyStoppingState{.best = 0.5, .best_step = 4}});
  broken.state.erase("early_stopping.best_step");
  EXPECT_EQ(ReasonOf(StateOf(broken).status()), "CHECKPOINT_ERROR");
}

TEST_F(TrainingStateTest, WithAnyScalarMissing_IsACheckpointErrorThatNamesIt) {
  const LoadedCheckpoint whole = Saved({.step = 7});
  for (const auto& [name, text] : whole.state) {
    if (name == "num_replays" || name == "told_underflow" || name == "plateau.best_loss" ||
        name == "recovery.lowerings") {
      continue;  // Checkpoints of older versions lack this scalar.
    }
    LoadedCheckpoint checkpoint = whole;
    checkpoint.state.erase(name);
    const auto back = StateOf(checkpoint);
    EXPECT_EQ(ReasonOf(back.status()), "CHECKPOINT_ERROR") << name;
    EXPECT_NE(back.status().message().find(name), absl::string_view::npos) << back.status();
  }
}

}  // namespace
}  // namespace ampd::train
