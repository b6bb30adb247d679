#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
#include "client/commands/checks.h"
#include "client/commands/confirm_delete.h"
#include "client/commands/find_job.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/render/shell_word.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct DeleteOptions {
  CheckpointName name;
  bool confirmed = false;
};

// Splits the name into the job and its checkpoint. INVALID_ARGUMENT if it names only a job: the user must name the
// checkpoint to delete.
absl::Status NameOne(const Session& session, CheckpointName* name) {
  const std::string text = name->job;
  AMPD_RETURN_IF_ERROR(SplitCheckpointName(name));
  return name->step.has_value() || name->best || text != name->job
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("name the step of the checkpoint: ", session.Command("checkpoint delete "),
                                ShellWord(name->job + "@STEP"),
                                "; to list the steps: ", session.Command("checkpoint list "), ShellWord(name->job)));
}

int DeleteCheckpoint(Session* session, const DeleteOptions& options) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  CheckpointName name = options.name;
  if (const absl::Status named = NameOne(*session, &name); !named.ok()) {
    return session->Fail(named);
  }
  const auto id = FindJobId(*client, name.job);
  if (!id.ok()) {
    return session->Fail(id.status());
  }
  name.job = *id;
  const auto checkpoints = (*client)->ListCheckpoints(name.job);
  const auto checkpoint = checkpoints.ok() ? FindCheckpoint(*checkpoints, name) : checkpoints.status();
  if (!checkpoint.ok()) {
    return session->Fail(checkpoint.status());
  }
  const auto refused = AskBeforeDelete(session, options.confirmed,
                                       absl::StrCat("delete the checkpoint of step ", checkpoint->step(), "?"),
                                       absl::StrCat("checkpoint delete --yes ", name.job, "@", checkpoint->step(),
                                                    " --attempt ", checkpoint->attempt()));
  if (refused.has_value()) {
    return *refused;
  }
  const absl::Status deleted = (*client)->DeleteCheckpoint(name.job, checkpoint->attempt(), checkpoint->step());
  if (!deleted.ok()) {
    return session->Fail(deleted);
  }
  if (session->names_only()) {
    WriteFormatted("%s\n", Printable(checkpoint->path()).c_str());
  } else if (!PrintStructured(*session, *checkpoint)) {
    WriteFormatted("checkpoint of step %lld, attempt %d  deleted\n", static_cast<long long>(checkpoint->step()),
                   checkpoint->attempt());
  }
  return kExitOk;
}

}  // namespace

Command DeleteCheckpointCommand() {
  const auto options = std::make_shared<DeleteOptions>();
  return {.name = "delete",
          .help = "Delete a checkpoint for good. Refused if a job that has not ended needs it",
          .examples = "  ampctl checkpoint delete JOB@400",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {{.name = "target",
                         .value = &options->name.job,
                         .text = "JOB@STEP",
                         .help = "Checkpoint: JOB@400 (step 400), JOB@best (lowest evaluation loss) or JOB@newest. JOB "
                                 "is the id or name of a job, or at least the first 5 characters of its id",
                         .required = true,
                         .suggest = SuggestJobIds},
                        {.name = "step",
                         .value = &options->name.step,
                         .text = "[STEP]",
                         .help = "Step, if JOB is given without @: JOB 400 is the same as JOB@400",
                         .check = CheckCount},
                        AttemptOfCheckpoint(&options->name.attempt),
                        Yes(&options->confirmed)},
          .run = [options](Session* session) { return DeleteCheckpoint(session, *options); }};
}

}  // namespace ampd::client
