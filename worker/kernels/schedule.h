#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "worker/kernels/host_device.h"

namespace ampd::kernels {

// The learning rate over applied steps: a linear warm-up, and after it the curve that `Shape` selects.
struct ScheduleConfig {
  enum class Shape { kConstant, kCosine, kStep, kLinear, kPolynomial };
  Shape shape = Shape::kConstant;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double final_ratio = 0;   // Cosine, linear and polynomial: share of the base rate at the last step.
  double power = 1;         // Exponent of the polynomial.
  int64_t every_steps = 1;  // Step: applied steps between two changes.
  double factor = 1;        // Step: multiplies the rate at each change.
};

// The factor on the base rate in the step that follows `applied_steps` applied steps (0 for the first step). In a
// warm-up of w steps it is (applied + 1) / w, so that no step has a rate of 0. Pure.
AMPD_HOST_DEVICE inline double RateFactor(const ScheduleConfig& schedule, int64_t applied_steps) {
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

}  // namespace ampd::kernels
