#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "client/commands/command.h"

// Functions shared by the commands that act on one checkpoint.
namespace ampd::client {

// The name of one of a job's checkpoints.
struct CheckpointName {
  std::string job;
  std::optional<int64_t> step;  // the checkpoint's step; unset: the newest step
  bool best = false;            // true: the checkpoint with the lowest evaluation loss; then `step` is unset
  int attempt = 0;  // the attempt that saved the checkpoint; 0: any; of several with the same step, the newest
};

// Splits `name->job`, which may be "JOB", "JOB@STEP", "JOB@best" or "JOB@newest", into the job and the checkpoint.
// INVALID_ARGUMENT if it has another form, or if `name->step` is set too.
absl::Status SplitCheckpointName(CheckpointName* name);

// Returns the newest checkpoint that has the step and attempt of `name`. `checkpoints` begins with the oldest.
// NOT_FOUND if none matches.
absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name);

// Checks that `target` may be a folder on this machine. NOT_FOUND if it looks like the name of a job instead, because
// it has no slash.
absl::Status CheckIsFolder(const Session& session, const std::string& target);

// Checks that `path`, to which `command` writes a checkpoint of `job`, is not a number. A number is probably a step
// that the user typed in the wrong place, as in `checkpoint download JOB 200`: INVALID_ARGUMENT.
absl::Status CheckIsNoStep(const Session& session, const std::string& command, const std::string& job,
                           const std::string& path);

// The positional argument: a checkpoint's folder on this machine.
Argument CheckpointFolderPath(std::string* path);

}  // namespace ampd::client
