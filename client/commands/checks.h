#pragma once

#include <string>
#include <vector>

#include "client/commands/command.h"

// Functions that check the value of an argument.
namespace ampd::client {

std::string CheckDuration(const std::string& text);
std::string CheckCount(const std::string& text);
std::string CheckPositiveCount(const std::string& text);
std::string CheckPositive(const std::string& text);
std::string CheckNotEmpty(const std::string& text);

// Returns a check that accepts only these words.
Check OneOf(std::vector<std::string> words);

}  // namespace ampd::client
