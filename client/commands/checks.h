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
// The time between two drawings of a screen or two lines of output.
std::string CheckInterval(const std::string& text);

// Returns the problem of a whole number above `max`; "" for any other text.
std::string TooLarge(const std::string& text, int64_t max);

// Returns a check that accepts only whole numbers in this range, both ends included.
Check InRange(int64_t min, int64_t max);

// Returns the end of a message that refuses `text`: "; did you mean 'RUNNING'?", or "" if no word is near.
std::string MeantWord(const std::string& text, const std::vector<std::string>& words);

// Returns the error that there is no thing with the name `text`, with the most similar of `names` if one is similar.
absl::Status WithMeantName(const absl::Status& status, const std::string& text, const std::vector<std::string>& names);

// Returns a check that accepts only these words.
Check OneOf(std::vector<std::string> words);

}  // namespace ampd::client
