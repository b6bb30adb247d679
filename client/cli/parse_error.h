#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/cli/answers/command_words.h"
#include "client/cli/command_tree.h"

namespace ampd::client {

// Explains an error of the parser in one sentence: what is wrong, with which word, and what the command takes. `words`
// are the words of the command line, and `read` is what Read() returns for them. REQUIRES: `read` names a command that
// exists.
std::string ExplainParseError(const CommandTree& tree, const CLI::ParseError& error, const ReadWords& read,
                              const std::vector<std::string>& words);

// Returns the first option in `words` that the command does not accept; empty if it accepts all of them.
std::string UnknownOption(const CLI::App& command, const std::vector<std::string>& words);

// Returns the words with which the user calls the command: "ampctl job submit".
std::string FullName(const CLI::App& command);

}  // namespace ampd::client
