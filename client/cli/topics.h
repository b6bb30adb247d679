#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns the names of the topics of `ampctl help` that are no commands, such as "exit-codes".
std::vector<std::string> TopicNames();

// Returns the text of the topic that the words name, in one of the ways in which people write it; null if they name
// none.
const char* TopicText(const std::vector<std::string>& words);

}  // namespace ampd::client
