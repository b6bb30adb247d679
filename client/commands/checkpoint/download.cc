#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/api/checkpoint_transfer.h"
#include "client/commands/arguments.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
#include "client/commands/job_checkpoint.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct DownloadCheckpointOptions {
  std::string checkpoint;  // "JOB", "JOB@best" or "JOB@STEP"
  std::string folder;      // folder to write; empty: named after the job and the step
  int attempt = 0;
};

int RunDownload(Session* session, const DownloadCheckpointOptions& options) {
  if (const absl::Status allowed = CheckIsNoStep(*session, "checkpoint download", options.checkpoint, options.folder);
      !allowed.ok()) {
    return session->Fail(allowed);
  }
  if (options.folder == "-") {
    return session->Fail(absl::InvalidArgumentError(
        "a checkpoint is several files, which cannot be written to stdout; name a folder (for a folder with the name "
        "\"-\", write ./-)"));
  }
  if (std::error_code error;
      std::filesystem::exists(options.folder, error) && !std::filesystem::is_directory(options.folder, error)) {
    return session->Fail(absl::FailedPreconditionError(
        absl::StrCat(Printable(options.folder), " is a file; name a folder, which is created if it does not exist")));
  }
  auto wanted = ParseJobCheckpoint("the checkpoint", options.checkpoint);
  if (!wanted.ok()) {
    return session->Fail(wanted.status());
  }
  wanted->attempt = options.attempt;
  Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto client = session->Client();
  const auto found = client.ok() ? FindJobCheckpoint(*client, *wanted) : client.status();
  if (!found.ok()) {
    return session->Fail(found.status());
  }
  const std::string folder = options.folder.empty()
                                 ? absl::StrCat(FileNameFor(found->job), "-step-", found->checkpoint.step())
                                 : options.folder;
  ProgressLine line(*session);
  const auto downloaded = DownloadCheckpoint(*client, found->job.id(), found->checkpoint, folder, /*wants=*/nullptr,
                                             OptionsWithBar(&line, absl::Seconds(10), cancellation));
  line.Clear();
  if (!downloaded.ok()) {
    return session->Fail(AsOutputError(downloaded.status()));
  }
  const PlainFields fields = {{"folder", folder},
                              {"job", found->job.id()},
                              {"attempt", static_cast<int64_t>(found->checkpoint.attempt())},
                              {"step", found->checkpoint.step()},
                              {"numFiles", downloaded->num_files},
                              {"sizeBytes", downloaded->size_bytes}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted("%s: checkpoint of step %lld, attempt %d: %lld files, %s\n", Printable(folder).c_str(),
                   static_cast<long long>(found->checkpoint.step()), found->checkpoint.attempt(),
                   static_cast<long long>(downloaded->num_files), FormatBytes(downloaded->size_bytes).c_str());
  }
  return kExitOk;
}

}  // namespace

Command DownloadCheckpointCommand() {
  const auto options = std::make_shared<DownloadCheckpointOptions>();
  return {
      .name = "download",
      .help = "Write the files of a checkpoint to a folder on this machine",
      .examples =
          "  ampctl checkpoint download clothes@best\n"
          "  ampctl checkpoint download clothes@400 /tmp/clothes",
      .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
      .arguments = {{.name = "target",
                     .value = &options->checkpoint,
                     .text = "JOB[@STEP|@best|@newest]",
                     .help = "JOB@400 (step 400), JOB@best (lowest evaluation loss), or only JOB or JOB@newest "
                             "(newest). JOB is the id or name of a job, or at least the first 5 characters of its id",
                     .required = true,
                     .suggest = SuggestJobIds},
                    {.name = "folder",
                     .value = &options->folder,
                     .text = "[FOLDER]",
                     .help = "Folder to write: new, empty, or holding this same checkpoint, whose files are written "
                             "again (default: NAME-step-N, with the job's name)",
                     .suggest = SuggestFiles,
                     .is_path = true},
                    AttemptOfCheckpoint(&options->attempt)},
      .run = [options](Session* session) { return RunDownload(session, *options); }};
}

}  // namespace ampd::client
