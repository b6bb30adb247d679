#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/checkpoint/checkpoint_folder.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
#include "client/commands/checks.h"
#include "client/commands/suggestions.h"
#include "client/render/checkpoint_text.h"
#include "client/render/format.h"
#include "client/render/shell_word.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns whether the argument is a folder and not a job id. Job ids have no slash. A name that the file system
// refuses, for example because it is too long, is no folder.
bool IsFolder(const std::string& target) {
  std::error_code error;
  return absl::StrContains(target, '/') || std::filesystem::is_directory(target, error);
}

struct RecordedCheckpoint {
  v1::Checkpoint checkpoint;
  std::string precision;
};

absl::StatusOr<RecordedCheckpoint> FetchCheckpoint(JobClient* client, const CheckpointName& name) {
  AMPD_ASSIGN_OR_RETURN(const std::string id, FindJobId(client, name.job));
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> checkpoints, client->ListCheckpoints(id));
  RecordedCheckpoint shown;
  AMPD_ASSIGN_OR_RETURN(
      shown.checkpoint,
      FindCheckpoint(checkpoints, {.job = id, .step = name.step, .best = name.best, .attempt = name.attempt}));
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(id));
  for (const v1::Attempt& attempt : job.attempts()) {
    if (attempt.number() == shown.checkpoint.attempt()) {
      shown.precision = attempt.precision();
    }
  }
  return shown;
}

int ShowFolder(Session* session, const std::string& path) {
  const auto folder = OpenCheckpointFolder(path);
  if (!folder.ok()) {
    return session->Fail(folder.status());
  }
  std::map<std::string, SafetensorsHeader> tables;
  for (const auto& [name, file] : folder->manifest.files) {
    if (absl::EndsWith(name, ".safetensors")) {
      auto table = ReadTensorTable(*folder, name);
      if (!table.ok()) {
        return session->Fail(table.status());
      }
      tables[name] = *std::move(table);
    }
  }
  const CheckpointManifest& manifest = folder->manifest;
  const std::string& digest = folder->manifest_sha256;
  if (PrintStructured(*session, StructuredText{FolderJson(manifest, digest, tables, true),
                                               FolderJson(manifest, digest, tables, false),
                                               FolderYaml(manifest, digest, tables)})) {
    return kExitOk;
  }
  WriteProse(RenderManifest(manifest, digest, TextOptionsOf(*session)));
  PrintTable(*session, TensorHeadings(), TensorRows(tables));
  return kExitOk;
}

// Shows the server's record of a job's checkpoint. If a folder is given in place of the job id, shows the content of
// that checkpoint folder instead.
int ShowCheckpoint(Session* session, const CheckpointName& named) {
  if (IsFolder(named.job)) {
    return ShowFolder(session, named.job);
  }
  CheckpointName name = named;
  if (const absl::Status split = SplitCheckpointName(&name); !split.ok()) {
    return session->Fail(split);
  }
  return CallAndShow(
      session, [&](JobClient* client) { return FetchCheckpoint(client, name); },
      [&](const RecordedCheckpoint& shown) {
        if (PrintStructured(*session, shown.checkpoint)) {
          return;
        }
        WriteProse(RenderCheckpoint(shown.checkpoint, shown.precision, TextOptionsOf(*session)));
        const std::string folder = absl::StrCat("./step-", shown.checkpoint.step());
        session->Note(absl::StrCat("to see its tensors: ", session->Command("checkpoint download "),
                                   ShellWord(absl::StrCat(Printable(name.job), "@", shown.checkpoint.step())),
                                   " --attempt ", shown.checkpoint.attempt(), " ", folder, "; ampctl checkpoint show ",
                                   folder));
      });
}

}  // namespace

Command ShowCheckpointCommand() {
  const auto name = std::make_shared<CheckpointName>();
  return {.name = "show",
          .help =
              "Show a checkpoint: what the server knows about a checkpoint of a job, or what is in the files of a "
              "checkpoint's folder on this machine",
          .examples =
              "  ampctl checkpoint show JOB@400\n"
              "  ampctl checkpoint show ./NAME-step-400      a folder that ampctl checkpoint download wrote",
          .formats = AllFormatsBut({OutputFormat::kName}),
          .arguments = {{.name = "target",
                         .value = &name->job,
                         .text = "JOB[@STEP|@best|@newest]|FOLDER",
                         .help = "Folder of a checkpoint on this machine; or JOB@400 (step 400), JOB@best (lowest "
                                 "evaluation loss), or only JOB or JOB@newest (newest). JOB is the id or name of a "
                                 "job, or at least the first 5 characters of its id",
                         .required = true,
                         .suggest = SuggestBoth(SuggestJobIds, SuggestFiles),
                         .is_path = true},
                        {.name = "step",
                         .value = &name->step,
                         .text = "[STEP]",
                         .help = "Step, if JOB is given without @: JOB 400 is the same as JOB@400",
                         .check = CheckCount},
                        AttemptOfCheckpoint(&name->attempt)},
          .run = [name](Session* session) { return ShowCheckpoint(session, *name); }};
}

}  // namespace ampd::client
