#pragma once

#include <string>
#include <vector>

// The options of `ampctl dev` that say which data jobs may read.
namespace ampd::client {

// Returns the worker's data roots: those given by the user, and the system's data sets. If two have the same name, the
// user's is returned.
std::vector<std::string> DataRoots(const std::vector<std::string>& given);

// Checks a value of --data-root. Returns an error text if the worker would reject the value
// (worker/agent/data_roots.h).
std::string CheckDataRoot(const std::string& text);

// Returns INVALID_ARGUMENT if two of the user's data roots have the same name and different folders.
absl::Status CheckDataRootNames(const std::vector<std::string>& given);

// Checks a value of --data-group. Returns an error text if it is neither the name nor the number of a group.
std::string CheckGroup(const std::string& text);

}  // namespace ampd::client
