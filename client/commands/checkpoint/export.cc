#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/checkpoint_folder.h"
#include "client/commands/arguments.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
#include "client/render/format.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct ExportCheckpointOptions {
  std::string folder;
  std::string file;  // file to write
  bool averages = false;
  bool replace = false;
};

int ExportCheckpoint(Session* session, const ExportCheckpointOptions& options) {
  const auto folder = OpenCheckpointFolder(options.folder);
  if (!folder.ok()) {
    return session->Fail(folder.status());
  }
  const auto exported =
      ExportModel(*folder, {.destination = options.file, .replace = options.replace, .averages = options.averages});
  if (!exported.ok()) {
    return session->Fail(exported.status());
  }
  const PlainFields fields = {{"file", options.file},
                              {"numTensors", absl::StrCat(exported->num_tensors)},
                              {"sizeBytes", absl::StrCat(exported->size_bytes)}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    std::printf("%s: %lld tensors of step %lld, %s\n", Printable(options.file).c_str(),
                static_cast<long long>(exported->num_tensors), static_cast<long long>(folder->manifest.step),
                FormatBytes(exported->size_bytes).c_str());
  }
  return kExitOk;
}

}  // namespace

Command ExportCheckpointCommand() {
  const auto options = std::make_shared<ExportCheckpointOptions>();
  return {.name = "export",
          .help = "Write the model in a checkpoint's folder to a safetensors file",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {CheckpointFolderPath(&options->folder),
                        OutputFile(&options->file),
                        {.name = "--averages",
                         .value = &options->averages,
                         .help = "Export the moving averages of optimizer.ema_decay instead of the weights"},
                        Force(&options->replace)},
          .run = [options](Session* session) { return ExportCheckpoint(session, *options); }};
}

}  // namespace ampd::client
