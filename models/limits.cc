#include "models/limits.h"

#include "absl/strings/str_cat.h"

namespace ampd::models {

bool Limits::Within(std::string_view field, int64_t value, int64_t low, int64_t high, std::string_view unit) {
  if (low <= value && value <= high) {
    return true;
  }
  Add(field, absl::StrCat(value, std::string(unit), " is not within ", low, " to ", high));
  return false;
}

void Limits::Probability(std::string_view field, double value) {
  if (!(value >= 0 && value < 1)) {
    Add(field, absl::StrCat(value, " is not at least 0 and below 1"));
  }
}

void Limits::Add(std::string_view field, std::string_view description) {
  violations_.push_back({absl::StrCat(prefix_, ".", std::string(field)), std::string(description)});
}

}  // namespace ampd::models
