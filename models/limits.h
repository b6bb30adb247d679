#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Limits on the sizes of all built-in models (the model zoo).
namespace ampd::models {

inline constexpr int64_t kMaxClasses = 65536;
inline constexpr int64_t kMaxWidth = 4096;
inline constexpr int64_t kMaxFeatures = 1 << 20;
inline constexpr int64_t kMaxImageSize = 4096;
// Limits for language models (models/decoder.h).
inline constexpr int64_t kMaxLayers = 256;
inline constexpr int64_t kMaxDecoderWidth = 1 << 16;
inline constexpr int64_t kMaxVocabulary = 1 << 20;
inline constexpr int64_t kMaxSequence = 1 << 20;

// Collects violations of a message's fields. Thread-compatible.
class Limits {
 public:
  // `prefix` is the path of the message, for example "model.lenet".
  explicit Limits(std::string_view prefix) : prefix_(prefix) {}

  // Adds a violation unless low <= value <= high; returns whether the value is in range. The violation's text has
  // `unit` after the value, for example " entries".
  bool Within(std::string_view field, int64_t value, int64_t low, int64_t high, std::string_view unit = "");
  // Adds a violation unless 0 <= value < 1, for example for a dropout probability.
  void Probability(std::string_view field, double value);
  void Add(std::string_view field, std::string_view description);

  std::vector<FieldViolation> violations() && { return std::move(violations_); }

 private:
  std::string prefix_;
  std::vector<FieldViolation> violations_;
};

}  // namespace ampd::models
