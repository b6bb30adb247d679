#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Some options of other programs have no equivalent in ampctl, so the advice to the user omits them. Returns the end of
// the advice, which says so: "; -p is left out: the server has one queue". `words` are the user's words, from the other
// program's command on. Empty if they have no such options.
std::string OptionsLeftOut(const std::vector<std::string>& words);

}  // namespace ampd::client
