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

// Returns the text of a job file; the path "-" is standard input. Of that, reads at most one byte more than a job file
// may have, so that the caller can reject a longer one.
absl::StatusOr<std::string> ReadSource(const std::string& path);

// Returns the command line "BEFORE -f PATH AFTER", with quotes that a shell needs. Empty if the file can't be read a
// second time, because it is standard input or a pipe of the shell.
std::string CommandWithFile(const std::string& before, const std::string& path, const std::string& after = "");

// Prints all problems of a job file and returns the exit code.
int FailWithProblems(const std::vector<Problem>& problems, const ProblemAdvice& advice);

// Prints each line of `text`, which comes from a server, after `prefix`.
void PrintLines(const std::string& text, const std::string& prefix);

// The example devices that `--device gpu` and `--device cpu` mean.
inline constexpr char kExampleGpu[] = "GPU of compute capability 9.0";
inline constexpr char kExampleCpu[] = "CPU with avx512_bf16";

// Returns a request that asks the server for the effect of the job's policy on its model on `device`, which is "gpu"
// or "cpu".
v1::ResolvePolicyRequest PolicyRequestOf(const v1::JobSpec& spec, const std::string& device);

// A device of a worker, and its name in messages: "w1/cpu (AMD EPYC)".
struct WorkerDevice {
  std::string name;
  v1::Device device;
};

// Returns the devices of connected workers that have the kind which the job asks for: of devices with the same
// capabilities only the first, and at most three. Empty if there are none, or if the server does not say.
std::vector<WorkerDevice> DevicesFor(JobClient* client, const v1::JobSpec& spec);

}  // namespace ampd::client
