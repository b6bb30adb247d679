#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace ampd {

// The version of ampd, such as "1.2.3". CMakeLists.txt is the only file that holds the number.
const char* Version();

// What `PROGRAM --version` prints, without the newline: "ampctl 1.2.3".
std::string VersionLine(const std::string& program);

// A version without its last number: "1.2" for "1.2.3".
struct MinorVersion {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const MinorVersion&, const MinorVersion&) = default;
};

// Returns nothing if the text is not three whole numbers with dots between them.
std::optional<MinorVersion> ParseVersion(std::string_view text);

// Whether programs of these two versions work together: both have the same first number, and their second numbers
// differ by one at most. False if one of the texts is no version.
bool WorkTogether(std::string_view one, std::string_view other);

// Whether `other` is a newer version than `own`, and the two do not work together (WorkTogether). A program of version
// `own` then does not read files of version `other`. False if one of the texts is no version.
bool IsTooNew(std::string_view other, std::string_view own);

}  // namespace ampd
