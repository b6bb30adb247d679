#include "client/commands/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/job_checkpoint.h"
#include "client/commands/suggestions.h"
#include "client/render/shell_word.h"

namespace ampd::client {
absl::Status SplitCheckpointName(CheckpointName* name) {
  if (name->job.find('@') == std::string::npos) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(const JobCheckpoint wanted, ParseJobCheckpoint("the checkpoint", name->job));
  if (name->step.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint is named twice, as ", name->job, " and as step ", *name->step, "; name it once"));
  }
  name->job = wanted.job;
  name->best = wanted.best;
  if (wanted.step > 0) {
    name->step = wanted.step;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name) {
  if (name.step.has_value() && *name.step < 1) {
    return ErrorWithMetadata(
        absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
        absl::StrCat("job ", name.job, " has no checkpoint of step ", *name.step, StepsText(checkpoints)),
        {{"job", name.job}});
  }
  v1::Job job;
  job.set_id(name.job);
  job.mutable_checkpoints()->Assign(checkpoints.begin(), checkpoints.end());
  return ChooseCheckpoint(job,
                          {.job = name.job, .best = name.best, .step = name.step.value_or(0), .attempt = name.attempt});
}

absl::Status CheckIsFolder(const Session& session, const std::string& target) {
  std::error_code error;
  if (absl::StrContains(target, '/') || std::filesystem::exists(target, error)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(target,
                                          " is not a folder here; if it is a job, download its checkpoint first: ",
                                          session.Command("checkpoint download "), ShellWord(target)));
}

absl::Status CheckIsNoStep(const Session& session, const std::string& command, const std::string& job,
                           const std::string& path) {
  const bool is_word = path == "best" || path == "newest";
  const bool is_step = !path.empty() && std::all_of(path.begin(), path.end(), absl::ascii_isdigit);
  return is_word || is_step
             ? absl::InvalidArgumentError(absl::StrCat(
                   "the argument ", path, " names the file or folder to write, not the checkpoint; to get the ",
                   is_word ? path + " checkpoint" : "checkpoint of step " + path, ": ", session.Command(command), " ",
                   ShellWord(job.substr(0, job.rfind('@')) + "@" + path),
                   "; to write to a file or folder of this name, give ./", path))
             : absl::OkStatus();
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
