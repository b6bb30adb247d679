// Compares ampd's loss scaler with the rule of each training engine that it can imitate (torch, Apex, DeepSpeed ...).
// Each rule is reimplemented here from that engine's source, and shares no code with ampd. Over 100,000 random overflow
// flags, the scale after every step must be the same fp32 number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random.h"
#include "precision/preset.h"
#include "tests/golden_file.h"
#include "worker/amp/loss_scaler.h"

namespace ampd::amp {
namespace {

using precision::LossScaleConfig;

constexpr int kSteps = 100'000;

// The rule by which one training engine, such as DeepSpeed, changes its loss scale.
class Rule {
 public:
  virtual ~Rule() = default;
  // Updates the scale after a step. Returns false if the engine ends the training instead.
  virtual bool Update(bool overflow) = 0;
  virtual float scale() const = 0;
};

// The rule of torch.amp.GradScaler: amp_update_scale_cuda_kernel in aten/src/ATen/native/cuda/AmpKernels.cu.
class Torch final : public Rule {
 public:
  explicit Torch(int interval) : interval_(interval) {}
  bool Update(bool overflow) override {
    if (overflow) {
      scale_ *= 0.5f;
      tracker_ = 0;
      return true;
    }
    const int successful = tracker_ + 1;
    if (successful == interval_) {
      const float grown = scale_ * 2.0f;
      scale_ = std::isfinite(grown) ? grown : scale_;
      tracker_ = 0;
    } else {
      tracker_ = successful;
    }
    return true;
  }
  float scale() const override { return scale_; }
  void set_interval(int interval) { interval_ = interval; }

 private:
  int interval_;
  float scale_ = 65536;
  int tracker_ = 0;
};

// The rule of ampd's fp16 preset: torch's rule with the scale kept between 1 and 2^24.
class Bounded final : public Rule {
 public:
  bool Update(bool overflow) override {
    if (overflow) {
      exponent_ = std::max(exponent_ - 1, 0);
      num_good_ = 0;
    } else if (++num_good_ == 2000) {
      exponent_ = std::min(exponent_ + 1, 24);
      num_good_ = 0;
    }
    return true;
  }
  float scale() const override { return std::ldexp(1.0f, exponent_); }

 private:
  int exponent_ = 16;
  int num_good_ = 0;
};

// The rule of Apex: LossScaler.update_scale in apex/amp/scaler.py.
class Apex final : public Rule {
 public:
  bool Update(bool overflow) override {
    if (overflow) {
      loss_scale_ /= 2;
      unskipped_ = 0;
    } else {
      unskipped_ += 1;
    }
    if (unskipped_ == 2000) {
      loss_scale_ = std::min(16777216.0, loss_scale_ * 2);
      unskipped_ = 0;
    }
    return true;
  }
  float scale() const override { return static_cast<float>(loss_scale_); }

 private:
  double loss_scale_ = 65536;
  int unskipped_ = 0;
};

// The rule of Apex with hysteresis: apex/csrc/update_scale_hysteresis.cu.
class ApexHysteresis final : public Rule {
 public:
  bool Update(bool overflow) override {
    if (overflow && --hysteresis_ > 0) {
      growth_ = 0;
      return true;
    }
    if (overflow) {
      scale_ *= 0.5f;
      growth_ = 0;
      return true;
    }
    if (++growth_ == 500) {
      const float grown = scale_ * 2.0f;
      scale_ = std::isfinite(grown) ? grown : scale_;
      growth_ = 0;
    }
    hysteresis_ = 3;
    return true;
  }
  float scale() const override { return scale_; }

 private:
  float scale_ = 65536;
  int growth_ = 0;
  int hysteresis_ = 3;
};

// The rule of Keras: _stateful_handle_finite_grads and its counterpart for non-finite gradients in
// keras/src/optimizers/loss_scale_optimizer.py.
class Keras final : public Rule {
 public:
  explicit Keras(int growth_steps) : growth_steps_(growth_steps) {}
  bool Update(bool overflow) override {
    if (overflow) {
      step_counter_ = 0;
      dynamic_scale_ /= 2.0f;
    } else if (step_counter_ == growth_steps_ - 1) {
      step_counter_ = 0;
      dynamic_scale_ *= 2.0f;
    } else {
      step_counter_ += 1;
    }
    return true;
  }
  float scale() const override { return dynamic_scale_; }

 private:
  const int growth_steps_;
  float dynamic_scale_ = 32768;
  int step_counter_ = 0;
};

// The rule of DeepSpeed: DynamicLossScaler.update_scale in deepspeed/runtime/fp16/loss_scaler.py, with
// raise_error_at_min_scale. The scale is a Python float.
class DeepSpeed final : public Rule {
 public:
  explicit DeepSpeed(bool consecutive) : consecutive_(consecutive) {}
  bool Update(bool overflow) override {
    if (overflow) {
      if (cur_hysteresis_ == 1) {
        if (cur_scale_ == 1) {
          return false;
        }
        cur_scale_ = std::max(cur_scale_ / 2, 1.0);
      } else {
        cur_hysteresis_ -= 1;
      }
      last_overflow_iter_ = cur_iter_;
    } else {
      if (consecutive_) {
        cur_hysteresis_ = 2;
      }
      if ((cur_iter_ - last_overflow_iter_) % 1000 == 0) {
        cur_hysteresis_ = consecutive_ ? cur_hysteresis_ : 2;
        cur_scale_ *= 2;
      }
    }
    cur_iter_ += 1;
    return true;
  }
  float scale() const override { return static_cast<float>(cur_scale_); }

 private:
  const bool consecutive_;
  double cur_scale_ = 65536;
  int cur_hysteresis_ = 2;
  int64_t cur_iter_ = 0;
  int64_t last_overflow_iter_ = -1;
};

// The rule of Megatron: DynamicGradScaler.update in megatron/core/optimizer/grad_scaler.py. The scale is an fp32
// tensor.
class Megatron final : public Rule {
 public:
  bool Update(bool overflow) override {
    if (overflow) {
      growth_tracker_ = 0;
      hysteresis_tracker_ -= 1;
      if (hysteresis_tracker_ <= 0) {
        scale_ = std::max(scale_ * 0.5f, 1.0f);
      }
      return true;
    }
    growth_tracker_ += 1;
    if (growth_tracker_ == 1000) {
      growth_tracker_ = 0;
      hysteresis_tracker_ = 2;
      scale_ = scale_ * 2.0f;
    }
    return true;
  }
  float scale() const override { return scale_; }

 private:
  float scale_ = 4294967296.0f;
  int growth_tracker_ = 0;
  int hysteresis_tracker_ = 2;
};

LossScaleConfig Config(double initial, int interval, int hysteresis = 1) {
  LossScaleConfig config;
  config.kind = LossScaleConfig::Kind::kDynamic;
  config.initial = initial;
  config.growth_interval = interval;
  config.hysteresis = hysteresis;
  return config;
}

// A configuration of ampd's scaler, and the rule that it must reproduce.
struct Trace {
  std::string name;
  LossScaleConfig config;
  std::function<std::unique_ptr<Rule>()> make_rule;
};

LossScaleConfig OfPreset(const char* name) { return precision::FindPreset(name)->loss_scale; }

std::vector<Trace> AllTraces() {
  LossScaleConfig apex_hysteresis = Config(0x1p16, 500, 3);
  apex_hysteresis.refill_on_every_good_step = true;
  LossScaleConfig consecutive = OfPreset("deepspeed-fp16");
  consecutive.refill_on_every_good_step = true;
  return {{"torch", OfPreset("torch-amp-fp16"), [] { return std::make_unique<Torch>(2000); }},
          {"fp16", OfPreset("fp16"), [] { return std::make_unique<Bounded>(); }},
          {"apex", OfPreset("apex-o1"), [] { return std::make_unique<Apex>(); }},
          {"apex-hysteresis", apex_hysteresis, [] { return std::make_unique<ApexHysteresis>(); }},
          {"keras", OfPreset("keras-mixed-float16"), [] { return std::make_unique<Keras>(2000); }},
          {"deepspeed", OfPreset("deepspeed-fp16"), [] { return std::make_unique<DeepSpeed>(false); }},
          {"deepspeed-consecutive", consecutive, [] { return std::make_unique<DeepSpeed>(true); }},
          {"megatron", OfPreset("megatron-fp16"), [] { return std::make_unique<Megatron>(); }}};
}

// Returns whether ampd would end the run at a step with this change of the scale.
bool Ends(const LossScaleConfig& config, ScaleChange change) {
  return change == ScaleChange::kAtFloor && config.at_floor == LossScaleConfig::AtFloor::kFail;
}

class Traces : public testing::TestWithParam<Trace> {};
INSTANTIATE_TEST_SUITE_P(Engines, Traces, testing::ValuesIn(AllTraces()), [](const auto& info) {
  std::string name = info.param.name;
  std::erase(name, '-');
  return name;
});

// One run overflows in almost every second step, so that the scale falls to the floor or 0. Another hardly ever
// overflows, so that the scale grows to the cap or infinity. The other runs lie in between.
TEST_P(Traces, EqualTheEnginesOwnRuleOver100000RandomFlags) {
  for (const uint64_t one_in : {2, 4, 50, 700, 2500, 40'000}) {
    const uint64_t seed = 100 + one_in;
    SeededRandom random(seed);
    LossScaler ours(GetParam().config);
    const std::unique_ptr<Rule> theirs = GetParam().make_rule();
    ASSERT_EQ(ours.scale(), theirs->scale());
    bool ended = false;
    for (int step = 0; step < kSteps && !ended; ++step) {
      const bool overflow = random.Next() % one_in == 0;
      ended = !theirs->Update(overflow);
      ASSERT_EQ(Ends(GetParam().config, ours.Update(overflow)), ended) << "seed " << seed << " step " << step;
      ASSERT_EQ(ours.scale(), theirs->scale()) << "seed " << seed << " step " << step;
    }
  }
}

// The golden files hold every change of the scale over 20,000 flags. One flag in 900 is an overflow, sometimes several
// in a row.
TEST_P(Traces, AreTheGoldenOnes) {
  SeededRandom random(7);
  LossScaler scaler(GetParam().config);
  std::string text = "step  flag  scale after it\n";
  int burst = 0;
  for (int step = 1; step <= 20'000; ++step) {
    if (random.Next() % 900 == 0) {
      burst = 1 + static_cast<int>(random.Next() % 4);
    }
    const bool overflow = burst-- > 0;
    if (scaler.Update(overflow) != ScaleChange::kNone) {
      absl::StrAppendFormat(&text, "%5d  %4s  %g\n", step, overflow ? "x" : ".", scaler.scale());
    }
  }
  ExpectGolden(absl::StrCat("tests/worker/amp/golden/loss_scale_", GetParam().name, ".txt"), text);
}

TEST(ApexTrace, GrowthEndsAtItsCapAndGoesOnFromThere) {
  LossScaleConfig config = Config(0x1p16, 1);
  config.cap = 0x1.8p17;
  LossScaler scaler(config);
  EXPECT_EQ(scaler.Update(false), ScaleChange::kGrown);
  EXPECT_EQ(scaler.Update(false), ScaleChange::kGrown);
  EXPECT_EQ(scaler.scale(), 0x1.8p17f) << "the cap itself, not the last power of two below it";
  EXPECT_EQ(scaler.Update(false), ScaleChange::kNone) << "no event while it stays there";
  scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 0x1.8p16f);
}

TEST(KerasTrace, WithoutAFiniteGuardTheScaleGrowsIntoInfinityAndStays) {
  LossScaleConfig config = Config(0x1p15, 1);
  config.cap = std::numeric_limits<double>::infinity();
  LossScaler ours(config);
  Keras theirs(1);
  for (int step = 0; step < 200; ++step) {
    ours.Update(step > 150);
    theirs.Update(step > 150);
    ASSERT_EQ(ours.scale(), theirs.scale()) << "step " << step;
  }
  EXPECT_TRUE(std::isinf(ours.scale()));
}

TEST(TorchTrace, WithoutAFloorTheScaleReachesZeroAndSaysThatItIsStuck) {
  LossScaler ours(Config(0x1p16, 2000));
  Torch theirs(2000);
  ScaleChange last = ScaleChange::kNone;
  for (int step = 0; step < 200; ++step) {
    last = ours.Update(true);
    theirs.Update(true);
    ASSERT_EQ(ours.scale(), theirs.scale()) << "step " << step;
  }
  EXPECT_EQ(ours.scale(), 0);
  EXPECT_EQ(last, ScaleChange::kAtFloor);
}

// The only difference from torch: if the growth interval is lowered below the number of good steps so far, ampd's scale
// grows at the next step. Torch tests whether the two numbers are equal, so its scale can't grow until an overflow
// resets the count.
TEST(TorchTrace, AnIntervalLoweredLiveGrowsOursAtOnceAndTorchsOnlyAfterAnOverflow) {
  LossScaler ours(Config(0x1p16, 2000));
  Torch theirs(2000);
  for (int step = 0; step < 100; ++step) {
    ours.Update(false);
    theirs.Update(false);
  }
  ours.Set(std::nullopt, 50);
  theirs.set_interval(50);
  ours.Update(false);
  EXPECT_EQ(ours.scale(), 0x1p17f);
  for (int step = 0; step < kSteps; ++step) {
    theirs.Update(false);
  }
  EXPECT_EQ(theirs.scale(), 0x1p16f);
  theirs.Update(true);
  for (int step = 0; step < 50; ++step) {
    theirs.Update(false);
  }
  EXPECT_EQ(theirs.scale(), 0x1p16f) << "halved, and grown again after 50 steps";
}

TEST(TorchTrace, AnIntervalRaisedLiveIsTorchs) {
  SeededRandom random(5);
  LossScaler ours(Config(0x1p16, 200));
  Torch theirs(200);
  for (int step = 0; step < kSteps; ++step) {
    if (step % 10'000 == 9'999) {
      const int interval = 200 + step / 20;
      ours.Set(std::nullopt, interval);
      theirs.set_interval(interval);
    }
    const bool overflow = random.Next() % 3000 == 0;
    ours.Update(overflow);
    theirs.Update(overflow);
    ASSERT_EQ(ours.scale(), theirs.scale()) << "step " << step;
  }
}

}  // namespace
}  // namespace ampd::amp
