#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker.pb.h"
#include "client/api/job_client.h"
#include "client/jobfile/job_file.h"
#include "client/jobfile/problems_text.h"

// Functions shared by the commands that take a job file.
namespace ampd::client {

// Returns the text of a job file; the path "-" is standard input. From standard input, reads at most one byte more than
// a job file may have, so that the caller can reject a longer text. The error for a missing file ends in `if_missing`.
absl::StatusOr<std::string> ReadSource(
    const std::string& path, const std::string& if_missing = "to write a job file to start from: ampctl init");

// Returns the command line "BEFORE -f PATH AFTER", with PATH quoted for a shell. Empty if the file can't be read again,
// because it is standard input or a pipe that the shell made.
std::string CommandWithFile(const std::string& before, const std::string& path, const std::string& after = "");

// Prints all problems of a job file and returns the exit code.
int FailWithProblems(const std::vector<Problem>& problems, const ProblemAdvice& advice);

// Prints each line of `text`, which comes from a server, with `prefix` before it.
void PrintLines(const std::string& text, const std::string& prefix);

// The names of the example devices that `--device gpu` and `--device cpu` select.
inline constexpr char kExampleGpu[] = "GPU of compute capability 9.0";
inline constexpr char kExampleCpu[] = "CPU with avx512_bf16";

// Returns a request for the effect of the job's policy on its model, on the example device `device`: "gpu" or "cpu".
v1::ResolvePolicyRequest PolicyRequestOf(const v1::JobSpec& spec, const std::string& device);

// A worker's device, and its name in messages: "w1/cpu (AMD EPYC)".
struct WorkerDevice {
  std::string name;
  v1::Device device;
};

// Returns devices of connected workers that have the kind that the job asks for, at most three. Of several devices with
// the same capabilities, returns only the first. Empty if there are none, or if the server does not list its workers.
std::vector<WorkerDevice> DevicesFor(JobClient* client, const v1::JobSpec& spec);

}  // namespace ampd::client
