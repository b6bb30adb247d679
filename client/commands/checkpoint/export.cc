#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/checkpoint/checkpoint_folder.h"
#include "client/commands/arguments.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
#include "client/commands/find_job.h"
#include "client/commands/job_checkpoint.h"
#include "client/commands/output_file.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct ExportCheckpointOptions {
  std::string folder;
  std::string file;  // file to write
  bool averages = false;
  bool replace = false;
};

// Checks the file to write. It must not be a file of the checkpoint.
absl::Status CheckExported(const ExportCheckpointOptions& options) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(options.folder, error)) {
    if (entry.is_regular_file(error)) {
      files.push_back(entry.path().string());
    }
  }
  AMPD_RETURN_IF_ERROR(CheckInputsAreKept(files, options.file));
  return CheckOutputFile(options.file, options.replace);
}

// Returns the folder on this machine that `source` means: the folder itself or, if it names a job's checkpoint, the
// folder that `ampctl dev` gave it. NOT_FOUND, with what to do instead, if the files are elsewhere.
absl::StatusOr<std::string> FolderOf(Session* session, const std::string& source) {
  constexpr char kCheckpointsOfDev[] = ".ampd/checkpoints/";
  std::error_code error;
  if (absl::StrContains(source, '/') || std::filesystem::is_directory(source, error)) {
    return source;
  }
  AMPD_ASSIGN_OR_RETURN(const JobCheckpoint wanted, ParseJobCheckpoint("the checkpoint", source));
  AMPD_ASSIGN_OR_RETURN(JobClient* const client, session->Client());
  const auto id = FindJobId(client, wanted.job);
  if (absl::IsNotFound(id.status())) {
    return absl::NotFoundError(absl::StrCat(Printable(wanted.job), " is neither a folder here nor a job"));
  }
  AMPD_RETURN_IF_ERROR(id.status());
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(*id));
  AMPD_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, ChooseCheckpoint(job, wanted));
  std::string folder = kCheckpointsOfDev + checkpoint.path();
  if (std::filesystem::is_directory(folder, error)) {
    return folder;
  }
  return absl::NotFoundError(
      absl::StrCat("the files of this checkpoint are not in this folder, below ", kCheckpointsOfDev, ", but on worker ",
                   Printable(checkpoint.worker()), ", in ", Printable(checkpoint.path()),
                   " below its --checkpoint-root. Run this there: ampctl checkpoint export CHECKPOINT_ROOT/",
                   Printable(checkpoint.path()), " FILE"));
}

int ExportCheckpoint(Session* session, ExportCheckpointOptions options) {
  const auto found = FolderOf(session, options.folder);
  if (!found.ok()) {
    return session->Fail(found.status());
  }
  options.folder = *found;
  const auto folder = OpenCheckpointFolder(options.folder);
  if (!folder.ok()) {
    return session->Fail(folder.status());
  }
  if (const absl::Status allowed = CheckExported(options); !allowed.ok()) {
    return session->Fail(allowed);
  }
  const auto exported =
      ExportModel(*folder, {.destination = options.file, .replace = options.replace, .averages = options.averages});
  if (!exported.ok()) {
    return session->Fail(exported.status());
  }
  const PlainFields fields = {{"file", options.file},
                              {"numTensors", static_cast<int64_t>(exported->num_tensors)},
                              {"sizeBytes", static_cast<int64_t>(exported->size_bytes)}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted("%s: %lld tensors from the checkpoint of step %lld; file size %s\n", Printable(options.file).c_str(),
                   static_cast<long long>(exported->num_tensors), static_cast<long long>(folder->manifest.step),
                   FormatBytes(exported->size_bytes).c_str());
  }
  return kExitOk;
}

}  // namespace

Command ExportCheckpointCommand() {
  const auto options = std::make_shared<ExportCheckpointOptions>();
  Argument folder = CheckpointFolderPath(&options->folder);
  folder.text = "FOLDER|JOB[@STEP]";
  folder.help =
      "Folder of a checkpoint on this machine. Or, in the folder of ampctl dev, a job: its newest checkpoint, that of "
      "a "
      "step (JOB@400), or that with the lowest evaluation loss (JOB@best)";
  return {.name = "export",
          .help = "Write a checkpoint's model to a safetensors file",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {folder,
                        OutputFile(&options->file),
                        {.name = "--averages",
                         .value = &options->averages,
                         .help = "Export the EMA weights (optimizer.ema_decay) instead of the trained ones"},
                        Force(&options->replace)},
          .run = [options](Session* session) { return ExportCheckpoint(session, *options); }};
}

}  // namespace ampd::client
