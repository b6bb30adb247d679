#pragma once

#include <limits>
#include <string>

namespace ampd::precision {

// The rule by which the loss is scaled, with every default filled in. A `floor` of 0 means no floor. A finite `cap`
// keeps the scale finite. An infinite `cap` lets the scale grow to infinity, as in Keras and Megatron; from then on
// every step is skipped.
struct LossScaleConfig {
  enum class Kind { kOff, kStatic, kDynamic };
  enum class AtFloor { kClamp, kFail, kFallBack };
  // For a model with several losses: which optimizers skip their update if the gradients of one loss are not finite.
  // kEachAlone: only that loss's optimizer.
  enum class OptimizerSkip { kEachAlone, kAllTogether };
  Kind kind = Kind::kOff;
  double initial = 1;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int growth_interval = 2000;
  double floor = 0;
  double cap = std::numeric_limits<float>::max();
  int hysteresis = 1;
  bool refill_on_every_good_step = false;
  AtFloor at_floor = AtFloor::kClamp;
  OptimizerSkip optimizer_skip = OptimizerSkip::kEachAlone;  // Used for every `kind`.
  friend bool operator==(const LossScaleConfig&, const LossScaleConfig&) = default;
};

// The loss scales that a user may set while the job runs, and that a report of sampled gradients may suggest: from
// `least` to `greatest` inclusive. The range reaches from the floor to the cap, but contains only normal fp32 numbers,
// because gradients are divided by the scale in fp32. So it ends at the largest fp32 number if the cap is infinite, and
// starts at the smallest normal fp32 number if there is no floor.
struct ScaleRange {
  double least = std::numeric_limits<float>::min();
  double greatest = std::numeric_limits<float>::max();

  bool Has(double scale) const { return scale >= least && scale <= greatest; }
  // Clamps a scale to the range.
  double Hold(double scale) const;
};
ScaleRange RangeOf(const LossScaleConfig& config);

// A loss scale as text: the shortest one that reads back as the same fp32 number. Powers of two from 1 to 2^42 are
// written as whole numbers. Examples: "65536", "4294967296", "1.7014118e+38", "0.1", "inf".
std::string LossScaleText(double scale);

}  // namespace ampd::precision
