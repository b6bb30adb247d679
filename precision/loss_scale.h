#pragma once

#include <limits>
#include <string>

namespace ampd::precision {

// Loss scaling with every default filled in. `floor` 0: no floor. A finite `cap` keeps the scale finite; an infinite
// one lets it grow to infinity, as in Keras and Megatron, after which no step is ever applied.
struct LossScaleConfig {
  enum class Kind { kOff, kStatic, kDynamic };
  enum class AtFloor { kClamp, kFail, kFallBack };
  // If the gradients of one of several losses are not finite: skip only its optimizer, or all of them.
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
  OptimizerSkip optimizer_skip = OptimizerSkip::kEachAlone;  // Applies to every kind.
  friend bool operator==(const LossScaleConfig&, const LossScaleConfig&) = default;
};

// The scales that an order may set and a sample of gradients may suggest, both ends included: from floor to cap, and
// such that gradients can be divided by them in fp32. For an infinite cap the end is the largest fp32 number, for no
// floor the smallest normal one.
struct ScaleRange {
  double least = std::numeric_limits<float>::min();
  double greatest = std::numeric_limits<float>::max();

  bool Has(double scale) const { return scale >= least && scale <= greatest; }
  // The nearest scale in the range.
  double Hold(double scale) const;
};
ScaleRange RangeOf(const LossScaleConfig& config);

// The shortest text that reads back as the same fp32 number, the type of a scale. Powers of two up to 2^43 are written
// as whole numbers: "65536", "4294967296", "1.7014118e+38", "0.1", "inf".
std::string LossScaleText(double scale);

}  // namespace ampd::precision
