#include "base/version.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace ampd {

const char* Version() { return AMPD_VERSION; }

std::string VersionLine(const std::string& program) { return program + " " + Version(); }

std::optional<MinorVersion> ParseVersion(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), '.');
  int numbers[3] = {};
  if (parts.size() != std::size(numbers)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!absl::SimpleAtoi(parts[i], &numbers[i]) || numbers[i] < 0) {
      return std::nullopt;
    }
  }
  return MinorVersion{numbers[0], numbers[1]};
}

bool WorkTogether(std::string_view one, std::string_view other) {
  const std::optional<MinorVersion> first = ParseVersion(one);
  const std::optional<MinorVersion> second = ParseVersion(other);
  return first.has_value() && second.has_value() && first->major == second->major &&
         std::abs(first->minor - second->minor) <= 1;
}

bool IsTooNew(std::string_view other, std::string_view own) {
  const std::optional<MinorVersion> theirs = ParseVersion(other);
  const std::optional<MinorVersion> ours = ParseVersion(own);
  return theirs.has_value() && ours.has_value() && *theirs > *ours && !WorkTogether(other, own);
}

}  // namespace ampd
