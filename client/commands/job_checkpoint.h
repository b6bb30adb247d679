#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "client/api/job_client.h"

// Checkpoints as users name them on a command line.
namespace ampd::client {

// A checkpoint of a job: "JOB" or "JOB@newest", "JOB@best" or "JOB@STEP".
struct JobCheckpoint {
  std::string job;  // as the user names it: an id, a name, or the beginning of an id
  bool best = false;
  int64_t step = 0;  // 0: the newest, or the best
  int attempt = 0;   // the attempt that wrote it; 0: any
};

// Parses the name of a checkpoint. INVALID_ARGUMENT if it has none of the forms above; `argument` is its name in the
// message, such as "--checkpoint".
absl::StatusOr<JobCheckpoint> ParseJobCheckpoint(const std::string& argument, const std::string& text);

// Returns the checkpoint of `job` that `wanted` names. The best is the one with the lowest evaluation loss and, of
// equal ones, the newest. NOT_FOUND (reason CHECKPOINT_NOT_FOUND) if the job does not have it.
absl::StatusOr<v1::Checkpoint> ChooseCheckpoint(const v1::Job& job, const JobCheckpoint& wanted);

// Returns which steps the checkpoints are of, to end a message that one is missing: "; it has those of the steps 100
// and 200". If there are many, only the first and the last step. Empty if there is no checkpoint.
std::string StepsText(const std::vector<v1::Checkpoint>& checkpoints);

// A checkpoint with the job that saved it.
struct FoundCheckpoint {
  v1::Job job;
  v1::Checkpoint checkpoint;
};

// Asks the server for the checkpoint that `wanted` names. Errors: those of FindJobId and ChooseCheckpoint, and the
// server's.
absl::StatusOr<FoundCheckpoint> FindJobCheckpoint(JobClient* client, const JobCheckpoint& wanted);

}  // namespace ampd::client
