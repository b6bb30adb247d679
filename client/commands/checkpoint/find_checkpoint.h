#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "client/commands/command.h"

// Functions shared by the commands that concern one checkpoint.
namespace ampd::client {

// Names one of a job's checkpoints.
struct CheckpointName {
  std::string job;
  std::optional<int64_t> step;  // the checkpoint's step; unset: the newest step
  bool best = false;            // whether it is the one with the lowest evaluation loss; then `step` is unset
  int attempt = 0;              // the attempt that saved it; 0: the newest attempt with that step
};

// Splits `name->job`, which may be "JOB", "JOB@STEP", "JOB@best" or "JOB@newest", into the job and the checkpoint.
// INVALID_ARGUMENT if it has another form, or if `name` also has a step of its own.
absl::Status SplitCheckpointName(CheckpointName* name);

// Returns the newest checkpoint that has the step and attempt of `name`. `checkpoints` has the oldest first. NOT_FOUND
// if none matches.
absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name);

// Checks that `target` may be a folder on this machine. NOT_FOUND if it is rather the name of a job, which has no
// slash.
absl::Status CheckIsFolder(const std::string& target);

// Checks that `path`, which `command` writes for a checkpoint of `job`, is no step: INVALID_ARGUMENT for a number, such
// as that of `checkpoint download JOB 200`.
absl::Status CheckIsNoStep(const std::string& command, const std::string& job, const std::string& path);

// The positional argument: a checkpoint's folder on this machine.
Argument CheckpointFolderPath(std::string* path);

}  // namespace ampd::client
