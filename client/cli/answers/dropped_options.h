#pragma once

#include <functional>
#include <string>
#include <vector>

// Finds the options of the user that an answer neither translates nor mentions.
namespace ampd::client {

// Returns the answer to a command line of another program.
using Answering = std::function<std::string(const std::vector<std::string>& words)>;

// Returns the options that have no effect on the answer: it is the same without them. `words`: a command line in the
// form that PlainOptions returns (typed_options.h). A TYPE/NAME or KEY=VALUE without effect counts too. Not returned
// are options that the answer contains, and options that make no difference to a user of ampctl, such as --verbose.
std::vector<std::string> DroppedOptions(const std::vector<std::string>& words, const Answering& answer);

}  // namespace ampd::client
