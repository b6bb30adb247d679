#include "client/commands/checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::client {

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  return absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration()
             ? ""
             : absl::StrCat("'", text, "' is not a duration such as 90s or 1h30m");
}

std::string CheckCount(const std::string& text) {
  int64_t count = 0;
  return absl::SimpleAtoi(text, &count) && count >= 0
             ? ""
             : absl::StrCat("'", text, "' is not a whole number of at least 0");
}

std::string CheckPositiveCount(const std::string& text) {
  int count = 0;
  return absl::SimpleAtoi(text, &count) && count >= 1
             ? ""
             : absl::StrCat("'", text, "' is not a whole number of at least 1");
}

std::string CheckPositive(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0
             ? ""
             : absl::StrCat("'", text, "' is not a number above 0");
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

Check OneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) {
    const bool known = std::find(words.begin(), words.end(), text) != words.end();
    return known ? std::string() : absl::StrCat("'", text, "' is not one of ", absl::StrJoin(words, ", "));
  };
}

}  // namespace ampd::client
