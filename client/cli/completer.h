#pragma once

#include <string>
#include <vector>

#include "client/cli/command_tree.h"

namespace ampd::client {

// Candidates for the last of `words`, the words after ampctl: commands, options, option values, ids and names that
// begin as that word does. ":files" means file names. Asks the server for ids and worker names. Never fails, and takes
// less than a second.
std::vector<std::string> Complete(const CommandTree& tree, std::vector<std::string> words);

}  // namespace ampd::client
