#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "client/checkpoint/checkpoint_folder.h"
#include "client/commands/arguments.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
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

int ExportCheckpoint(Session* session, const ExportCheckpointOptions& options) {
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
  return {.name = "export",
          .help = "Write a checkpoint's model to a safetensors file",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {CheckpointFolderPath(&options->folder),
                        OutputFile(&options->file),
                        {.name = "--averages",
                         .value = &options->averages,
                         .help = "Export the EMA weights (optimizer.ema_decay) instead of the trained ones"},
                        Force(&options->replace)},
          .run = [options](Session* session) { return ExportCheckpoint(session, *options); }};
}

}  // namespace ampd::client
