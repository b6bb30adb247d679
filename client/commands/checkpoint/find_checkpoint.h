#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "client/commands/command.h"

// Shared by the commands about one checkpoint.
namespace ampd::client {

// Names one of a job's checkpoints.
struct CheckpointName {
  std::string job;
  std::optional<int64_t> step;  // unset: the newest
  int attempt = 0;              // 0: the newest attempt with that step
};

// The newest checkpoint of that step and attempt. NOT_FOUND if there is none among `checkpoints`, oldest first.
absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name);

// The positional argument: a checkpoint's folder on this machine.
Argument CheckpointFolderPath(std::string* path);

}  // namespace ampd::client
