#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "client/jobfile/job_file.h"

// Shared by the commands that take a job file.
namespace ampd::client {

// Reads a job file; "-" is standard input. Reads at most one byte more than the maximum size of a job file.
absl::StatusOr<std::string> ReadSource(const std::string& path);

// Prints all problems of a job file and returns the exit code.
int FailWithProblems(const std::vector<Problem>& problems, const std::string& source);

// Prints each line of a server's text after a prefix.
void PrintLines(const std::string& text, const std::string& prefix);

// The devices that "gpu" and "cpu" mean if no device is given.
inline constexpr char kExampleGpu[] = "GPU of compute capability 9.0";
inline constexpr char kExampleCpu[] = "CPU with avx512_bf16";

// Makes the request for the effect of a job's policy on its model on such a device.
v1::ResolvePolicyRequest PolicyRequestOf(const v1::JobSpec& spec, const std::string& device);

}  // namespace ampd::client
