#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/commands/command.h"

// Functions that check the value of an argument.
namespace ampd::client {

std::string CheckUtf8(const std::string& text);
std::string CheckCount(const std::string& text);
std::string CheckPositiveCount(const std::string& text);
std::string CheckPositive(const std::string& text);
std::string CheckNotEmpty(const std::string& text);
// Checks the value of --interval: the time between two drawings of a screen or two lines of output.
std::string CheckInterval(const std::string& text);

// Returns the time for which the text is a Unix time in seconds, or in thousandths or millionths of a second:
// "2023-11-14T22:13:20Z" for "1700000000". Empty if the text is none.
std::string TimeOfUnix(const std::string& text);

// Returns the error text for a whole number above `max`; "" for any other text.
std::string TooLarge(const std::string& text, int64_t max);

// Returns a check that refuses words such as "never" and "forever" as the value of an option that limits a time, and
// says that without `option` there is no limit.
Check NotEndless(const std::string& option);

// Returns a check that accepts only whole numbers in this range, both ends included.
Check InRange(int64_t min, int64_t max);

// Returns the end of an error message about `text` that suggests the most similar word: "; did you mean 'RUNNING'?".
// Returns "" if no word is similar.
std::string MeantWord(const std::string& text, const std::vector<std::string>& words);

// Appends the most similar of `names` to the error `status`, which says that nothing has the name `text`. Returns
// `status` as it is if no name is similar.
absl::Status WithMeantName(const absl::Status& status, const std::string& text, const std::vector<std::string>& names);

// Returns a check that accepts only the given words.
Check OneOf(std::vector<std::string> words);

}  // namespace ampd::client
