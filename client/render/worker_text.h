#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"

// Workers and their devices as rows of a table.
namespace ampd::client {

// The headings and rows of `worker list`. With `wide` there is one row per device, which shows its capabilities and
// the worker's version.
std::vector<std::string> WorkerHeadings(bool wide);
std::vector<std::vector<std::string>> WorkerRows(const v1::Worker& worker, bool wide, absl::Time now);

// The headings and rows of `worker list -o csv`: one row per device, or one for a worker without devices.
std::vector<std::string> WorkerCsvHeadings();
std::vector<std::vector<std::string>> WorkerCsvRows(const v1::Worker& worker);

}  // namespace ampd::client
