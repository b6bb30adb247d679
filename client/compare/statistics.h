#pragma once

#include <optional>
#include <vector>

// Statistics of few numbers and of loss curves. All are pure functions.
namespace ampd::client {

// The mean of the values. REQUIRES: there is at least one.
double Mean(const std::vector<double>& values);
// The sample standard deviation. 0 for fewer than two values.
double StandardDeviation(const std::vector<double>& values);

// Returns t such that a variable with Student's t distribution is within [-t, t] in 95% of all cases. Exact for every
// number of degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4. REQUIRES: degrees_of_freedom >= 1.
double StudentQuantile(int degrees_of_freedom);

// A difference between two policies, with half the width of its 95% interval.
struct Difference {
  double value = 0;
  std::optional<double> half_width = std::nullopt;  // Unset: the noise is not known.

  // Whether the difference is larger than the noise. False if the noise is not known.
  bool exceeds_noise() const { return half_width.has_value() && (value > *half_width || value < -*half_width); }
};

// Returns the mean of the differences between paired runs, with the t interval of that mean. The half width is unset
// for fewer than two pairs. REQUIRES: there is at least one.
Difference MeanOfPairs(const std::vector<double>& differences);

// The weight that Smoothed gives to earlier values. An average over about 19 points.
inline constexpr double kSmoothing = 0.9;

// Returns the exponential moving average of the values as TensorBoard computes it: every average is divided by the sum
// of its weights, so that the first ones are not pulled towards 0. A value that is not finite is left out: its average
// is the one before it, or the value itself at the start.
std::vector<double> Smoothed(const std::vector<double>& values, double weight = kSmoothing);

// The end of a loss curve: its last fifth, but at least 10 points.
struct Tail {
  double level = 0;  // Mean of the losses. NaN if half of them or more are not finite.
  // Standard deviation of the smoothed losses around their straight line, so that a loss that still falls is not taken
  // for noise.
  double noise = 0;
};

// Returns the tail of a curve. Unset if the curve has fewer than 20 points, which are too few to know its noise.
std::optional<Tail> TailOf(const std::vector<double>& losses);

}  // namespace ampd::client
