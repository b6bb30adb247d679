#include "client/compare/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace ampd::client {
namespace {

constexpr size_t kLeastPoints = 20;
constexpr size_t kLeastTail = 10;
constexpr size_t kTailShare = 5;  // The tail is the last fifth.

// Returns the probability that a variable t with Student's distribution has |t| <= tan(theta) * sqrt(degrees).
double StudentProbability(double theta, int degrees) {
  const double cosine = std::cos(theta);
  const bool is_odd = degrees % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = degrees > 1 ? term : 0;
  for (int i = is_odd ? 3 : 2; i <= degrees - 2; i += 2) {
    term *= cosine * cosine * (i - 1) / i;
    sum += term;
  }
  return is_odd ? 2 / std::numbers::pi * (theta + std::sin(theta) * sum) : std::sin(theta) * sum;
}

// Returns the standard deviation of the values around their least-squares line.
double NoiseAroundLine(const std::vector<double>& values) {
  const double middle = static_cast<double>(values.size() - 1) / 2;
  const double mean = Mean(values);
  double covariance = 0;
  double variance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    covariance += x * (values[i] - mean);
    variance += x * x;
  }
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double residual = values[i] - mean - covariance / variance * (static_cast<double>(i) - middle);
    squares += residual * residual;
  }
  return std::sqrt(squares / static_cast<double>(values.size() - 2));
}

}  // namespace

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

double StandardDeviation(const std::vector<double>& values) {
  if (values.size() < 2) {
    return 0;
  }
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double StudentQuantile(int degrees_of_freedom) {
  constexpr double kProbability = 0.95;
  double low = 0;
  double high = std::numbers::pi / 2;
  while (true) {
    const double theta = (low + high) / 2;
    if (theta == low || theta == high) {
      return std::tan(theta) * std::sqrt(degrees_of_freedom);
    }
    (StudentProbability(theta, degrees_of_freedom) < kProbability ? low : high) = theta;
  }
}

Difference MeanOfPairs(const std::vector<double>& differences) {
  const auto count = static_cast<double>(differences.size());
  Difference difference = {.value = Mean(differences)};
  if (differences.size() > 1) {
    difference.half_width =
        StudentQuantile(static_cast<int>(differences.size()) - 1) * StandardDeviation(differences) / std::sqrt(count);
  }
  return difference;
}

std::vector<double> Smoothed(const std::vector<double>& values, double weight) {
  std::vector<double> smoothed;
  double sum = 0;
  double sum_of_weights = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      sum = weight * sum + (1 - weight) * value;
      sum_of_weights = weight * sum_of_weights + (1 - weight);
    }
    smoothed.push_back(sum_of_weights > 0 ? sum / sum_of_weights : value);
  }
  return smoothed;
}

std::optional<Tail> TailOf(const std::vector<double>& losses) {
  if (losses.size() < kLeastPoints) {
    return std::nullopt;
  }
  const auto length = static_cast<std::ptrdiff_t>(std::max(kLeastTail, losses.size() / kTailShare));
  std::vector<double> finite(losses.end() - length, losses.end());
  std::erase_if(finite, [](double loss) { return !std::isfinite(loss); });
  if (static_cast<std::ptrdiff_t>(finite.size()) * 2 <= length) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return Tail{nan, nan};
  }
  const std::vector<double> smoothed = Smoothed(losses);
  return Tail{Mean(finite), NoiseAroundLine({smoothed.end() - length, smoothed.end()})};
}

}  // namespace ampd::client
