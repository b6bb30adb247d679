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
  int64_t step = 0;  // 0: the newest or, if `best` is set, the best
  int attempt = 0;   // the attempt that wrote the checkpoint; 0: any
};

// Returns what was probably meant by a word after JOB@ that names no checkpoint: "newest" for "latest", "400" for
// "step-400". Empty if there is no good guess.
std::string CheckpointMeant(const std::string& which);

// Parses the name of a checkpoint. INVALID_ARGUMENT if the text has none of the forms above. Error messages call the
// text `argument`, such as "--checkpoint".
absl::StatusOr<JobCheckpoint> ParseJobCheckpoint(const std::string& argument, const std::string& text);

// Returns the checkpoint of `job` that `wanted` names. The best checkpoint has the lowest evaluation loss; of several,
// it is the newest. NOT_FOUND (reason CHECKPOINT_NOT_FOUND) if the job does not have the checkpoint.
absl::StatusOr<v1::Checkpoint> ChooseCheckpoint(const v1::Job& job, const JobCheckpoint& wanted);

// Returns the end of the message that a checkpoint is missing. It names the steps of `checkpoints`, those that exist:
// "; it has those of the steps 100 and 200". Names only the first and the last step if there are many. Returns "" if
// there are no checkpoints.
std::string StepsText(const std::vector<v1::Checkpoint>& checkpoints);

// A checkpoint with the job that saved it.
struct FoundCheckpoint {
  v1::Job job;
  v1::Checkpoint checkpoint;
};

// Asks the server for the checkpoint that `wanted` names. Returns the errors of FindJobId and ChooseCheckpoint, and the
// server's errors.
absl::StatusOr<FoundCheckpoint> FindJobCheckpoint(JobClient* client, const JobCheckpoint& wanted);

}  // namespace ampd::client
