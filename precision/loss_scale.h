#pragma once

#include <limits>
#include <string>

namespace ampd::precision {

// Loss scaling with every default filled in. `floor` 0: none. A finite `cap` keeps the scale finite; an infinite one
// lets it grow into infinity, as Keras and Megatron do, after which no step is ever applied.
struct LossScaleConfig {
  enum class Kind { kOff, kStatic, kDynamic };
  enum class AtFloor { kClamp, kFail, kFallBack };
  // What is skipped when the gradients of one of several losses are not finite: its optimizer, or all of them.
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
  OptimizerSkip optimizer_skip = OptimizerSkip::kEachAlone;  // whatever the kind
  friend bool operator==(const LossScaleConfig&, const LossScaleConfig&) = default;
};

// The scales that an order may set and a sample of gradients may suggest, both ends included: between floor and cap,
// and such that gradients can be divided by them in fp32. Of an infinite cap the largest fp32 number is in it, of no
// floor the smallest normal one.
struct ScaleRange {
  double least = std::numeric_limits<float>::min();
  double greatest = std::numeric_limits<float>::max();

  bool Has(double scale) const { return scale >= least && scale <= greatest; }
  // The nearest that is in it.
  double Hold(double scale) const;
};
ScaleRange RangeOf(const LossScaleConfig& config);

// The shortest text from which a reader gets the same fp32 number, which is what a scale is; a power of two up to 2^43
// is whole: "65536", "4294967296", "1.7014118e+38", "0.1", "inf".
std::string LossScaleText(double scale);

}  // namespace ampd::precision
