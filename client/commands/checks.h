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

// Returns the problem of a whole number above `max`; "" for any other text.
std::string TooLarge(const std::string& text, int64_t max);

// Returns a check that accepts only whole numbers in this range, both ends included.
Check InRange(int64_t min, int64_t max);

// Returns a check that accepts only these words.
Check OneOf(std::vector<std::string> words);

}  // namespace ampd::client
