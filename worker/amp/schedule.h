#pragma once

#include <cstdint>

namespace ampd::amp {

// The learning rate over applied steps. A linear warm-up comes first, then the shape over the steps that are left.
struct ScheduleConfig {
  enum class Shape { kConstant, kCosine, kStep, kLinear, kPolynomial };
  Shape shape = Shape::kConstant;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double final_ratio = 0;   // cosine, linear and polynomial: of the base rate, at the last step
  double power = 1;         // polynomial
  int64_t every_steps = 1;  // step
  double factor = 1;        // step
};

// What the base rate is multiplied by on the step after `applied_steps` applied ones, so 0 for the first step. In the
// warm-up of w steps that is (applied + 1) / w, so that no step has a rate of 0. Pure.
double RateFactor(const ScheduleConfig& schedule, int64_t applied_steps);

}  // namespace ampd::amp
