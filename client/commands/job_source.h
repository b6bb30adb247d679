#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "client/jobfile/job_file.h"

// What commands that take a job file share.
namespace ampd::client {

// The text of a job file, "-" being standard input: at most a byte more than such a file may have.
absl::StatusOr<std::string> ReadSource(const std::string& path);

// Tells all problems of a job file, and returns the exit code.
int FailWithProblems(const std::vector<Problem>& problems, const std::string& source);

// Prints each line of a text from the server behind a prefix.
void PrintLines(const std::string& text, const std::string& prefix);

// The devices that "gpu" and "cpu" stand for where none is at hand.
inline constexpr char kExampleGpu[] = "GPU of compute capability 9.0";
inline constexpr char kExampleCpu[] = "CPU with avx512_bf16";

// Asks what a job's policy does to its model on such a device.
v1::ResolvePolicyRequest PolicyRequestOf(const v1::JobSpec& spec, const std::string& device);

}  // namespace ampd::client
