#pragma once

#include <string>
#include <vector>

// The options of `ampctl dev` that say which data jobs may read.
namespace ampd::client {

// Returns the worker's data roots: those given by the user, and the data sets that the system has. If two have the
// same name, the user's is used.
std::vector<std::string> DataRoots(const std::vector<std::string>& given);

// Returns the problem of a value of --data-root, which the worker would refuse too (worker/agent/data_roots.h).
std::string CheckDataRoot(const std::string& text);

// Returns the problem of a value of --data-group: the name or the number of a group.
std::string CheckGroup(const std::string& text);

}  // namespace ampd::client
