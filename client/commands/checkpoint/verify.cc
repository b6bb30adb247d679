#include <memory>
#include <string>
#include <vector>

#include "client/checkpoint/checkpoint_folder.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/commands/checkpoint/find_checkpoint.h"
#include "client/render/format.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct VerifyOptions {
  std::string folder;
  bool recorded = false;
};

// Compares the folder's manifest with the server's record. Returns "" if they agree, and otherwise the difference.
// Returns an error if the server could not be asked.
absl::StatusOr<std::string> CompareWithRecord(Session* session, const CheckpointFolder& folder) {
  const auto client = session->Client();
  if (!client.ok()) {
    return client.status();
  }
  const CheckpointName wanted = {
      .job = folder.manifest.job_id, .step = folder.manifest.step, .attempt = folder.manifest.attempt};
  const auto checkpoints = (*client)->ListCheckpoints(wanted.job);
  const auto recorded = checkpoints.ok() ? FindCheckpoint(*checkpoints, wanted) : checkpoints.status();
  if (!recorded.ok()) {
    return absl::IsNotFound(recorded.status()) ? absl::StatusOr<std::string>(recorded.status().message())
                                               : recorded.status();
  }
  return recorded->manifest_sha256() == folder.manifest_sha256
             ? ""
             : "the manifest's SHA-256 is not the one that the server recorded";
}

// Verifies every file of a folder against its manifest. With `options.recorded`, also verifies the manifest against
// the server's record.
int VerifyCheckpoint(Session* session, const VerifyOptions& options) {
  if (const absl::Status is_folder = CheckIsFolder(*session, options.folder); !is_folder.ok()) {
    return session->Fail(is_folder);
  }
  const auto folder = OpenCheckpointFolder(options.folder);
  if (!folder.ok()) {
    return session->Fail(folder.status());
  }
  std::vector<PlainFields> fields;
  std::vector<std::vector<std::string>> rows;
  bool is_whole = true;
  const auto add = [&](const std::string& name, const std::string& damage) {
    is_whole = is_whole && damage.empty();
    fields.push_back({{"file", name}, {"ok", damage.empty()}, {"problem", damage}});
    rows.push_back({Printable(name), damage.empty() ? "ok" : Printable(damage)});
  };
  for (const auto& [name, file] : folder->manifest.files) {
    add(name, FindDamage(*folder, name));
  }
  if (options.recorded) {
    const absl::StatusOr<std::string> difference = CompareWithRecord(session, *folder);
    if (!difference.ok()) {
      return session->Fail(difference.status());
    }
    add(kManifestFile, *difference);
  }
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    PrintTable(*session, {"FILE", "VERDICT"}, rows);
  }
  return is_whole ? kExitOk : kExitFailure;
}

}  // namespace

Command VerifyCheckpointCommand() {
  const auto options = std::make_shared<VerifyOptions>();
  return {.name = "verify",
          .help = "Check that the files in a checkpoint's folder are complete and unchanged",
          .examples =
              "  ampctl checkpoint download JOB@400 /tmp/clothes\n"
              "  ampctl checkpoint verify /tmp/clothes",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {{.name = "--recorded",
                         .value = &options->recorded,
                         .help = "Also compare the checkpoint with the server's record of it"},
                        CheckpointFolderPath(&options->folder)},
          .run = [options](Session* session) { return VerifyCheckpoint(session, *options); }};
}

}  // namespace ampd::client
