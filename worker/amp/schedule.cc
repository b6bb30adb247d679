#include "worker/amp/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ampd::amp {

double RateFactor(const ScheduleConfig& schedule, int64_t applied_steps) {
  if (applied_steps < schedule.warmup_steps) {
    return static_cast<double>(applied_steps + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const int64_t after = applied_steps - schedule.warmup_steps;
  const int64_t length = std::max<int64_t>(1, schedule.total_steps - schedule.warmup_steps);
  const double progress = std::min(1.0, static_cast<double>(after) / static_cast<double>(length));
  const double final_ratio = schedule.final_ratio;
  switch (schedule.shape) {
    case ScheduleConfig::Shape::kConstant:
      return 1;
    case ScheduleConfig::Shape::kCosine:
      return final_ratio + (1 - final_ratio) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case ScheduleConfig::Shape::kStep: {
      const int64_t num_stairs = after / schedule.every_steps;
      return std::pow(schedule.factor, static_cast<double>(num_stairs));
    }
    case ScheduleConfig::Shape::kLinear:
      return 1 - (1 - final_ratio) * progress;
    case ScheduleConfig::Shape::kPolynomial:
      return final_ratio + (1 - final_ratio) * std::pow(1 - progress, schedule.power);
  }
  return 1;
}

}  // namespace ampd::amp
