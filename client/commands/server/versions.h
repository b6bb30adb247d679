#pragma once

#include <string>
#include <vector>

#include "ampd/v1/worker.pb.h"

namespace ampd::client {

// Returns a warning for each version that is more than one minor version away from the server's: ampctl's version and
// those of the workers. Ignores lost workers. Empty if all versions work together.
std::vector<std::string> VersionWarnings(const std::string& server_version, const std::vector<v1::Worker>& workers);

// Returns a line for each version of the workers, with the names of some workers that have it: "ampd-worker 1.2.3: w1,
// w2". Ignores lost workers. The newest version is first.
std::vector<std::string> WorkerVersionLines(const std::vector<v1::Worker>& workers);

}  // namespace ampd::client
