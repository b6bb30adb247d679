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
  int attempt = 0;              // the attempt that saved it; 0: the newest attempt with that step
};

// Returns the newest checkpoint that has the step and attempt of `name`. `checkpoints` has the oldest first. NOT_FOUND
// if none matches.
absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name);

// The positional argument: a checkpoint's folder on this machine.
Argument CheckpointFolderPath(std::string* path);

}  // namespace ampd::client
