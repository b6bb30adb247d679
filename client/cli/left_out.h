#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns what the user has to know about those options of another program that have no equivalent in ampctl, so that
// the answer leaves them out: "; -p is left out: the server has one queue". `words` are the user's, from the command of
// the other program on. Empty if there are no such options.
std::string OptionsLeftOut(const std::vector<std::string>& words);

}  // namespace ampd::client
