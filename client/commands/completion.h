#pragma once

#include <map>
#include <string>
#include <vector>

namespace ampd::client {

// The words that may follow each command ("", "job", "job submit"): subcommands and options.
using CompletionWords = std::map<std::string, std::vector<std::string>>;

// A script for bash: `source <(ampctl completion bash)`. Job ids are asked of the server.
std::string BashCompletion(const CompletionWords& words);

}  // namespace ampd::client
