#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/cli/usage.h"

namespace ampd::client {

// What may stand in the place of the last of `words`, which stand behind ampctl: commands, options, values of options,
// ids and names, those that begin as the last word does. ":files" stands for names of files. Asks the server where ids
// or workers are wanted; never fails, and takes less than a second.
std::vector<std::string> Complete(const CLI::App& root, const CommandFormats& formats, std::vector<std::string> words);

}  // namespace ampd::client
