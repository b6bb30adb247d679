#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/worker.pb.h"

// The ready file of a worker (--ready-file). The file exists once the server has accepted this worker, so other
// programs can wait for the file. A worker removes an earlier worker's file when it starts, and replaces its own file
// whenever the server accepts it again. The content:
//
//   file   := metrics '\n' (device '\n')*
//   metrics := the worker's metrics address, host:port; empty if it serves none
//   device  := id ", " name ", " memory in MiB " MiB"
namespace ampd::agent {

// Replaces the file atomically, so that a reader never sees a part of it.
absl::Status WriteReadyFile(const std::string& path, const std::string& metrics_address,
                            const std::vector<v1::Device>& devices);

// Removes the file of an earlier worker. OK if there is none.
absl::Status RemoveReadyFile(const std::string& path);

// Returns the device's line in the ready file, such as "cpu, Xeon, 64000 MiB".
std::string DescribeDevice(const v1::Device& device);

}  // namespace ampd::agent
