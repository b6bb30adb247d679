#pragma once

#include <optional>
#include <vector>

// Statistics of small samples and of loss curves. All are pure functions.
namespace ampd::client {

// Returns the mean of the values. REQUIRES: there is at least one value.
double Mean(const std::vector<double>& values);
// Returns the sample standard deviation; 0 for fewer than two values.
double StandardDeviation(const std::vector<double>& values);

// Returns t such that a variable with Student's t distribution is within [-t, t] with a probability of 95%. Exact for
// every number of degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4. REQUIRES: degrees_of_freedom >= 1.
double StudentQuantile(int degrees_of_freedom);

// A difference between two policies, with half the width of its 95% interval.
struct Difference {
  double value = 0;
  std::optional<double> half_width = std::nullopt;  // Unset: the noise is not known.

  // Returns whether the difference is larger than the noise. False if the noise is not known.
  bool exceeds_noise() const { return half_width.has_value() && (value > *half_width || value < -*half_width); }
};

// Returns the mean of the differences between paired runs, with the t interval of that mean. The half width is unset
// for fewer than two pairs. REQUIRES: there is at least one pair.
Difference MeanOfPairs(const std::vector<double>& differences);

// The weight of earlier values in Smoothed. With this weight, it averages about 19 points.
inline constexpr double kSmoothing = 0.9;

// Returns the exponential moving average of the values as TensorBoard computes it: every average is divided by the sum
// of its weights, so that the first averages are not pulled towards 0. At a value that is not finite, the result is the
// previous average or, if there is none, the value itself.
std::vector<double> Smoothed(const std::vector<double>& values, double weight = kSmoothing);

// The end of a loss curve: its last fifth, but at least 10 points.
struct Tail {
  double level = 0;  // Mean of the losses. NaN if half of them or more are not finite.
  // Standard deviation of the smoothed losses around their least-squares line. A steady fall of the loss follows this
  // line, so it does not count as noise.
  double noise = 0;
};

// Returns the tail of a curve. Unset if the curve has fewer than 20 points, because so few do not show the noise.
std::optional<Tail> TailOf(const std::vector<double>& losses);

}  // namespace ampd::client
