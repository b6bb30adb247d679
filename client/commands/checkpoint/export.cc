#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "client/api/checkpoint_transfer.h"
#include "client/checkpoint/checkpoint_folder.h"
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

struct ExportCheckpointOptions {
  std::string folder;
  std::string file;  // file to write
  int attempt = 0;
  bool averages = false;
  bool replace = false;
};

// Checks the file to write, which must not be a file of the checkpoint.
absl::Status CheckExported(const ExportCheckpointOptions& options) {
  std::error_code error;
  std::vector<std::string> files;
  std::filesystem::directory_iterator entry(options.folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (entry->is_regular_file(gone)) {
      files.push_back(entry->path().string());
    }
  }
  AMPD_RETURN_IF_ERROR(CheckInputsAreKept(files, options.file));
  return CheckOutputFile(options.file, options.replace);
}

// The folder of the checkpoint to export. If the folder is temporary, the destructor deletes it.
class SourceFolder {
 public:
  explicit SourceFolder(std::string path, bool is_temporary = false)
      : path_(std::move(path)), is_temporary_(is_temporary) {}
  SourceFolder(SourceFolder&& other) noexcept
      : path_(std::move(other.path_)), is_temporary_(std::exchange(other.is_temporary_, false)) {}
  ~SourceFolder() {
    if (is_temporary_) {
      std::error_code error;
      std::filesystem::remove_all(path_, error);
    }
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_temporary_;
};

// Creates a temporary folder beside the file to write, and downloads into it the files that the export needs.
absl::StatusOr<SourceFolder> DownloadSource(Session* session, JobClient* client, const FoundCheckpoint& found,
                                            const ExportCheckpointOptions& options) {
  const std::filesystem::path beside = std::filesystem::path(options.file).parent_path();
  std::string folder = (beside.empty() ? std::filesystem::path(".") : beside) / ".ampctl-export-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return AsOutputError(WithPrefix(options.file, ErrnoError(errno, "cannot be written")));
  }
  SourceFolder source(folder, /*is_temporary=*/true);
  ProgressLine line(*session);
  const auto downloaded = DownloadCheckpoint(
      client, found.job.id(), found.checkpoint, folder,
      [&](const std::string& file) { return IsExported(file, options.averages); },
      OptionsWithBar(&line, absl::Seconds(10), session->CancelledByInterrupt()));
  line.Clear();
  AMPD_RETURN_IF_ERROR(downloaded.status());
  if (session->CancelledByInterrupt()->cancelled()) {
    return absl::CancelledError("interrupted");
  }
  return source;
}

// Returns the checkpoint folder that `options.folder` names: a folder on this machine, or a job's checkpoint. For a
// job's checkpoint, the folder is that of a local `ampctl dev` if it exists; otherwise the files are downloaded to a
// temporary folder.
absl::StatusOr<SourceFolder> FolderOf(Session* session, const ExportCheckpointOptions& options) {
  constexpr char kCheckpointsOfDev[] = ".ampd/checkpoints/";
  std::error_code error;
  const std::string& source = options.folder;
  if (absl::StrContains(source, '/') || std::filesystem::is_directory(source, error)) {
    return options.attempt == 0 ? absl::StatusOr<SourceFolder>(SourceFolder(source))
                                : absl::InvalidArgumentError("--attempt is for a job; a folder has one checkpoint");
  }
  AMPD_ASSIGN_OR_RETURN(JobCheckpoint wanted, ParseJobCheckpoint("the checkpoint", source));
  wanted.attempt = options.attempt;
  AMPD_ASSIGN_OR_RETURN(JobClient* const client, session->Client());
  const auto found = FindJobCheckpoint(client, wanted);
  if (absl::IsNotFound(found.status()) && ReasonOf(found.status()) != "CHECKPOINT_NOT_FOUND") {
    return absl::NotFoundError(
        absl::StrCat(Printable(wanted.job),
                     " is neither a folder here nor a job; to list the jobs: ", session->Command("job list")));
  }
  AMPD_RETURN_IF_ERROR(found.status());
  const std::string folder = kCheckpointsOfDev + found->checkpoint.path();
  if (std::filesystem::is_directory(folder, error)) {
    return SourceFolder(folder);
  }
  AMPD_RETURN_IF_ERROR(CheckOutputFile(options.file, options.replace));  // Fail early: the download may take long.
  return DownloadSource(session, client, *found, options);
}

// Checks the name of the file to write. Call it before reading anything.
absl::Status CheckName(const Session& session, const ExportCheckpointOptions& options) {
  if (options.file == "-") {
    return CheckOutputFile(options.file, options.replace);
  }
  AMPD_RETURN_IF_ERROR(CheckIsNoStep(session, "checkpoint export", options.folder, options.file));
  return CheckEnding(
      options.file, {".safetensors", "safetensors"},
      {".pt", ".pth", ".pt2", ".bin", ".ckpt", ".onnx", ".h5", ".npz", ".npy", ".pkl", ".gguf", ".msgpack", ".pb"});
}

int ExportCheckpoint(Session* session, ExportCheckpointOptions options) {
  const Cancellation* const interrupt = session->CancelledByInterrupt();
  if (const absl::Status allowed = CheckName(*session, options); !allowed.ok()) {
    return session->Fail(allowed);
  }
  const auto source = FolderOf(session, options);
  if (!source.ok()) {
    return session->Fail(source.status());
  }
  options.folder = source->path();
  const auto folder = OpenCheckpointFolder(options.folder);
  if (!folder.ok()) {
    return session->Fail(folder.status());
  }
  if (const absl::Status allowed = CheckExported(options); !allowed.ok()) {
    return session->Fail(allowed);
  }
  const auto exported = ExportModel(*folder, {.destination = options.file,
                                              .replace = options.replace,
                                              .averages = options.averages,
                                              .is_cancelled = [interrupt] { return interrupt->cancelled(); }});
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
  folder.text = "JOB[@STEP|@best|@newest]|FOLDER";
  folder.suggest = SuggestBoth(SuggestFiles, SuggestJobIds);
  folder.help =
      "Folder of a checkpoint on this machine; or JOB@400 (step 400), JOB@best (lowest evaluation loss), or only JOB "
      "or JOB@newest (newest). JOB is the id or name of a job, or at least the first 5 characters of its id";
  return {.name = "export",
          .help = "Write a checkpoint's model to a safetensors file",
          .examples = "  ampctl checkpoint export JOB@best clothes.safetensors",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {folder,
                        OutputFile(&options->file),
                        {.name = "--averages",
                         .value = &options->averages,
                         .help = "Export the EMA weights (optimizer.ema_decay) instead of the trained ones"},
                        AttemptOfCheckpoint(&options->attempt),
                        Force(&options->replace)},
          .run = [options](Session* session) { return ExportCheckpoint(session, *options); }};
}

}  // namespace ampd::client
