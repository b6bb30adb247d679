#pragma once

#include <string>
#include <vector>

#include "client/cli/command_tree.h"

namespace ampd::client {

// Returns the completions of the last of `words`, which are the words after "ampctl": all commands, options, option
// values, ids and names that may stand there and begin with that word. The entry ":files" stands for file names. Asks
// the server for ids and names of workers. Never fails, and takes less than a second.
std::vector<std::string> Complete(const CommandTree& tree, std::vector<std::string> words);

}  // namespace ampd::client
