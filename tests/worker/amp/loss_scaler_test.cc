#include "worker/amp/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/random.h"

namespace ampd::amp {
namespace {

using precision::LossScaleConfig;

LossScaleConfig Dynamic(double initial, int interval) {
  LossScaleConfig config;
  config.kind = LossScaleConfig::Kind::kDynamic;
  config.initial = initial;
  config.growth_interval = interval;
  return config;
}

// Returns the scale after each character of `flags`: 'x' is an overflow, '.' a good step.
std::string TraceOf(LossScaler& scaler, const std::string& flags) {
  std::string trace;
  for (const char flag : flags) {
    scaler.Update(flag == 'x');
    trace += std::to_string(static_cast<int64_t>(scaler.scale())) + " ";
  }
  return trace;
}

TEST(LossScaler, BacksOffOnOverflowAndGrowsAfterTheInterval) {
  LossScaler scaler(Dynamic(1024, 3));
  EXPECT_EQ(TraceOf(scaler, "x...x..x..."), "512 512 512 1024 512 512 512 256 256 256 512 ");
}

// Reimplements the kernel of torch.amp.GradScaler, amp_update_scale, from its definition.
struct TorchRule {
  float scale = 1;
  int tracker = 0;
  void Update(bool found_inf, float growth, float backoff, int interval) {
    if (found_inf) {
      scale *= backoff;
      tracker = 0;
      return;
    }
    if (++tracker == interval) {
      const float grown = scale * growth;
      scale = std::isfinite(grown) ? grown : scale;
      tracker = 0;
    }
  }
};

TEST(LossScaler, EqualsGradScalersRuleOverRandomFlags) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    const int interval = 1 + static_cast<int>(random.Next() % 50);
    LossScaler scaler(Dynamic(65536, interval));
    TorchRule torch{65536.0f};
    const uint64_t one_in = 2 + random.Next() % 200;
    for (int step = 0; step < 10'000; ++step) {
      const bool overflow = random.Next() % one_in == 0;
      scaler.Update(overflow);
      torch.Update(overflow, 2.0f, 0.5f, interval);
      ASSERT_EQ(scaler.scale(), torch.scale) << "seed " << seed << " step " << step;
    }
  }
}

TEST(LossScaler, NeverGrowsToInfinityNorPastItsCap) {
  LossScaler unbounded(Dynamic(std::ldexp(1.0, 126), 1));
  EXPECT_EQ(unbounded.Update(false), ScaleChange::kGrown);
  EXPECT_EQ(unbounded.Update(false), ScaleChange::kNone);
  EXPECT_EQ(unbounded.scale(), std::ldexp(1.0f, 127));
  LossScaleConfig config = Dynamic(1024, 1);
  config.cap = 2048;
  LossScaler capped(config);
  EXPECT_EQ(TraceOf(capped, "..."), "2048 2048 2048 ");
}

TEST(LossScaler, StopsAtItsFloorAndSaysSo) {
  LossScaleConfig config = Dynamic(4, 100);
  config.floor = 1.5;
  LossScaler scaler(config);
  EXPECT_EQ(scaler.Update(true), ScaleChange::kBackedOff);
  EXPECT_EQ(scaler.scale(), 2);
  EXPECT_EQ(scaler.Update(true), ScaleChange::kBackedOff);
  EXPECT_EQ(scaler.scale(), 1.5);
  EXPECT_EQ(scaler.Update(true), ScaleChange::kAtFloor);
  EXPECT_EQ(scaler.scale(), 1.5);
}

TEST(LossScaler, HysteresisRefilledOnGrowthIsMegatrons) {
  LossScaleConfig config = Dynamic(1024, 3);
  config.hysteresis = 2;
  LossScaler scaler(config);
  // The first overflow is tolerated. Good steps do not refill the hysteresis, so every further overflow backs off until
  // the scale grows.
  EXPECT_EQ(TraceOf(scaler, "x.x.x...x.x"), "1024 1024 512 512 256 256 256 512 512 512 256 ");
}

TEST(LossScaler, HysteresisRefilledOnEveryGoodStepIsApexs) {
  LossScaleConfig config = Dynamic(1024, 100);
  config.hysteresis = 2;
  config.refill_on_every_good_step = true;
  LossScaler scaler(config);
  EXPECT_EQ(TraceOf(scaler, "x.x.xx"), "1024 1024 1024 1024 1024 512 ");
}

TEST(LossScaler, AnIntervalLoweredBelowTheTrackerGrowsAtTheNextGoodStep) {
  LossScaler scaler(Dynamic(1024, 2000));
  TraceOf(scaler, "..........");
  scaler.Set(std::nullopt, 5);
  EXPECT_EQ(TraceOf(scaler, "."), "2048 ");
}

TEST(LossScaler, AnOrderedScaleStartsANewInterval) {
  LossScaler scaler(Dynamic(1024, 3));
  TraceOf(scaler, "..");
  scaler.Set(64, std::nullopt);
  EXPECT_EQ(TraceOf(scaler, "..."), "64 64 128 ");
}

TEST(LossScaler, AnOrderedScaleIsHeldWithinFloorAndCap) {
  const auto ordered = [](LossScaleConfig config, double scale) {
    LossScaler scaler(config);
    scaler.Set(scale, std::nullopt);
    return scaler.scale();
  };
  LossScaleConfig config = Dynamic(1024, 3);
  config.floor = 2;
  config.cap = 0x1p24;
  EXPECT_EQ(ordered(config, 1e30), 0x1p24f);
  EXPECT_EQ(ordered(config, 0x1p24), 0x1p24f);
  EXPECT_EQ(ordered(config, 1e-30), 2);
  config.floor = 0;
  config.cap = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ordered(config, 1e300), std::numeric_limits<float>::max()) << "without a cap";
  EXPECT_EQ(ordered(config, 1e-300), std::numeric_limits<float>::min()) << "without a floor, but to be divided by";
  EXPECT_EQ(ordered({.kind = LossScaleConfig::Kind::kStatic, .initial = 8}, 1e30), 1e30f) << "a static one has none";
}

TEST(LossScaler, OffAndStaticNeverMove) {
  LossScaler off{LossScaleConfig()};
  EXPECT_EQ(TraceOf(off, "x.x."), "1 1 1 1 ");
  off.Set(8, 1);
  EXPECT_EQ(off.scale(), 1);
  LossScaleConfig config;
  config.kind = LossScaleConfig::Kind::kStatic;
  config.initial = 128;
  LossScaler fixed(config);
  EXPECT_EQ(TraceOf(fixed, "x.x."), "128 128 128 128 ");
}

TEST(LossScaler, ARestoredStateGoesOnTheSame) {
  LossScaler first(Dynamic(1024, 7));
  TraceOf(first, "..x....");
  LossScaler second(Dynamic(1024, 7));
  second.Restore(first.state());
  EXPECT_EQ(TraceOf(first, "...x........"), TraceOf(second, "...x........"));
  EXPECT_EQ(first.state(), second.state());
}

}  // namespace
}  // namespace ampd::amp
