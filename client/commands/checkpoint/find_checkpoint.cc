#include "client/commands/checkpoint/find_checkpoint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/commands/suggestions.h"

namespace ampd::client {

absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name) {
  const auto found = std::find_if(checkpoints.rbegin(), checkpoints.rend(), [&](const v1::Checkpoint& checkpoint) {
    return (!name.step.has_value() || checkpoint.step() == *name.step) &&
           (name.attempt == 0 || checkpoint.attempt() == name.attempt);
  });
  if (found == checkpoints.rend()) {
    return ErrorWithMetadata(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
                             absl::StrCat("job ", name.job, " has no checkpoint",
                                          name.step.has_value() ? absl::StrCat(" of step ", *name.step) : "",
                                          name.attempt > 0 ? absl::StrCat(" in attempt ", name.attempt) : ""),
                             {{"job", name.job}});
  }
  return *found;
}

Argument CheckpointFolderPath(std::string* path) {
  return {.name = "target",
          .value = path,
          .text = "FOLDER",
          .help = "Folder of a checkpoint on this machine",
          .required = true,
          .suggest = SuggestFiles,
          .is_path = true};
}

}  // namespace ampd::client
