#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Some options of other programs have no equivalent in ampctl, so the advice to the user omits them. Returns the end of
// the advice, which says so: "; -p is left out: the server has one queue". `words` are the user's words, from the other
// program's command on. `dropped` are options that the advice omits for reasons that may be unknown: these are named
// without a reason. Empty if there are no such options.
std::string OptionsLeftOut(const std::vector<std::string>& words, const std::vector<std::string>& dropped);

}  // namespace ampd::client
