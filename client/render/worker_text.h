#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"

// Workers and their devices as rows of a table.
namespace ampd::client {

// `wide` has one row per device with its capabilities, and the worker's version.
std::vector<std::string> WorkerHeadings(bool wide);
std::vector<std::vector<std::string>> WorkerRows(const v1::Worker& worker, bool wide, absl::Time now);

}  // namespace ampd::client
