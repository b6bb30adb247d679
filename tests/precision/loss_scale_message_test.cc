#include "precision/loss_scale_message.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "precision/preset.h"

namespace ampd::precision {
namespace {

TEST(LossScaleMessage, RuleOfEveryPreset_ComesBackUnchanged) {
  for (const Preset& preset : AllPresets()) {
    const auto read = LossScaleOf(ToMessage(preset.loss_scale));
    ASSERT_TRUE(read.ok()) << preset.name << ": " << read.status();
    EXPECT_EQ(*read, preset.loss_scale) << preset.name;
  }
}

TEST(LossScaleMessage, EveryValue_ComesBackUnchanged) {
  const LossScaleConfig config = {.kind = LossScaleConfig::Kind::kDynamic,
                                  .initial = 512,
                                  .growth_factor = 1.5,
                                  .backoff_factor = 0.25,
                                  .growth_interval = 7,
                                  .floor = 2,
                                  .cap = 4096,
                                  .hysteresis = 3,
                                  .refill_on_every_good_step = true,
                                  .at_floor = LossScaleConfig::AtFloor::kFallBack,
                                  .optimizer_skip = LossScaleConfig::OptimizerSkip::kAllTogether};
  EXPECT_EQ(LossScaleOf(ToMessage(config)).value(), config);
}

TEST(LossScaleMessage, UnsetFloorAndCap_AreNone) {
  v1::LossScale message;
  message.mutable_dynamic()->set_initial(8);
  const auto read = LossScaleOf(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->floor, 0);
  EXPECT_TRUE(std::isinf(read->cap));
  EXPECT_EQ(read->initial, 8);
}

TEST(LossScaleMessage, ValuesOutOfRange_AreRefused) {
  v1::LossScale message;
  message.mutable_dynamic()->set_growth_factor(0.5);
  EXPECT_EQ(ReasonOf(LossScaleOf(message).status()), "INVALID_FIELDS");
  message.mutable_fixed()->set_scale(-1);
  EXPECT_EQ(ReasonOf(LossScaleOf(message).status()), "INVALID_FIELDS");
}

}  // namespace
}  // namespace ampd::precision
