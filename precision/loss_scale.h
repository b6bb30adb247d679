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

// The shortest text from which a reader gets the same fp32 number, which is what a scale is; a power of two up to 2^43
// is whole: "65536", "4294967296", "1.7014118e+38", "0.1", "inf".
std::string LossScaleText(double scale);

}  // namespace ampd::precision
