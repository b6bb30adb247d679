#pragma once

#include <string>
#include <vector>

#include "ampd/v1/worker.pb.h"

namespace ampd::client {

// Returns a sentence for each pair of versions that are more than one minor version apart: that of ampctl and the
// server's, and those of workers and the server's. Leaves out lost workers. Empty if all work together.
std::vector<std::string> VersionWarnings(const std::string& server_version, const std::vector<v1::Worker>& workers);

// Returns a line for each version that workers have, with the first of their names: "ampd-worker 1.2.3: w1, w2". Leaves
// out lost workers. The newest version is first.
std::vector<std::string> WorkerVersionLines(const std::vector<v1::Worker>& workers);

}  // namespace ampd::client
