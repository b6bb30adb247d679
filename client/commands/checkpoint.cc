#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/checkpoint/checkpoint_folder.h"
#include "client/commands/call.h"
#include "client/commands/commands.h"
#include "client/render/checkpoint_text.h"
#include "client/render/table.h"
#include "client/terminal/confirm.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

JobTextOptions TextOptions(const Session& session) {
  return {absl::Now(), absl::LocalTimeZone(), session.palette(), session.options().output == OutputFormat::kWide};
}

// Job ids have no slash.
bool IsFolder(const std::string& target) {
  return absl::StrContains(target, '/') || std::filesystem::is_directory(target);
}

// The newest checkpoint of the given step and attempt; each may be unset.
absl::StatusOr<v1::Checkpoint> Find(const std::vector<v1::Checkpoint>& checkpoints, const CheckpointOptions& options) {
  const auto found = std::find_if(checkpoints.rbegin(), checkpoints.rend(), [&](const v1::Checkpoint& checkpoint) {
    return (!options.step.has_value() || checkpoint.step() == *options.step) &&
           (options.attempt == 0 || checkpoint.attempt() == options.attempt);
  });
  if (found == checkpoints.rend()) {
    return ErrorWithMetadata(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
                             absl::StrCat("job ", options.target, " keeps no checkpoint",
                                          options.step.has_value() ? absl::StrCat(" of step ", *options.step) : "",
                                          options.attempt > 0 ? absl::StrCat(" of attempt ", options.attempt) : ""),
                             {{"job", options.target}});
  }
  return *found;
}

struct Shown {
  v1::Checkpoint checkpoint;
  std::string precision;
};

absl::StatusOr<Shown> Ask(JobClient* client, const CheckpointOptions& options) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> checkpoints, client->ListCheckpoints(options.target));
  Shown shown;
  AMPD_ASSIGN_OR_RETURN(shown.checkpoint, Find(checkpoints, options));
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(options.target));
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
  if (PrintJson(*session, FolderJson(manifest, folder->manifest_sha256, tables, true),
                FolderJson(manifest, folder->manifest_sha256, tables, false))) {
    return kExitOk;
  }
  std::fputs(RenderManifest(manifest, folder->manifest_sha256, TextOptions(*session)).c_str(), stdout);
  std::fputs(RenderTable(TensorHeadings(), TensorRows(tables), !session->options().no_headers).c_str(), stdout);
  return kExitOk;
}

// Whether the server has recorded the folder's manifest: returns "" if it has, otherwise the reason. An error means
// that the server could not be asked.
absl::StatusOr<std::string> FindStranger(Session* session, const CheckpointFolder& folder) {
  const auto client = session->Client();
  if (!client.ok()) {
    return client.status();
  }
  CheckpointOptions wanted;
  wanted.target = folder.manifest.job_id;
  wanted.attempt = folder.manifest.attempt;
  wanted.step = folder.manifest.step;
  const auto checkpoints = (*client)->ListCheckpoints(wanted.target);
  const auto recorded = checkpoints.ok() ? Find(*checkpoints, wanted) : checkpoints.status();
  if (!recorded.ok()) {
    return absl::IsNotFound(recorded.status()) ? absl::StatusOr<std::string>(recorded.status().message())
                                               : recorded.status();
  }
  return recorded->manifest_sha256() == folder.manifest_sha256 ? "" : "not the one that the server has recorded";
}

}  // namespace

int ListCheckpoints(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListCheckpoints(id); },
      [&](const std::vector<v1::Checkpoint>& checkpoints) { PrintCheckpoints(*session, checkpoints); });
}

int ShowCheckpoint(Session* session, const CheckpointOptions& options) {
  if (IsFolder(options.target)) {
    return ShowFolder(session, options.target);
  }
  return CallAndShow(
      session, [&](JobClient* client) { return Ask(client, options); },
      [&](const Shown& shown) {
        if (PrintStructured(*session, shown.checkpoint)) {
          return;
        }
        std::fputs(RenderCheckpoint(shown.checkpoint, shown.precision, TextOptions(*session)).c_str(), stdout);
        session->Note(absl::StrCat("its tensors, on ",
                                   shown.checkpoint.local() ? shown.checkpoint.worker() : "a worker",
                                   ": ampctl checkpoint show <checkpoint root>/", Printable(shown.checkpoint.path())));
      });
}

int VerifyCheckpoint(Session* session, const CheckpointOptions& options) {
  const auto folder = OpenCheckpointFolder(options.target);
  if (!folder.ok()) {
    return session->Fail(folder.status());
  }
  std::vector<PlainFields> fields;
  std::vector<std::vector<std::string>> rows;
  bool is_whole = true;
  const auto tell = [&](const std::string& name, const std::string& damage) {
    is_whole = is_whole && damage.empty();
    fields.push_back({{"file", name}, {"ok", damage.empty()}, {"problem", damage}});
    rows.push_back({Printable(name), damage.empty() ? "ok" : Printable(damage)});
  };
  for (const auto& [name, file] : folder->manifest.files) {
    tell(name, FindDamage(*folder, name));
  }
  if (options.recorded) {
    const absl::StatusOr<std::string> stranger = FindStranger(session, *folder);
    if (!stranger.ok()) {
      return session->Fail(stranger.status());
    }
    tell(kManifestFile, *stranger);
  }
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    std::fputs(RenderTable({"FILE", "VERDICT"}, rows, !session->options().no_headers).c_str(), stdout);
  }
  return is_whole ? kExitOk : kExitFailure;
}

int ExportCheckpoint(Session* session, const CheckpointOptions& options) {
  const auto folder = OpenCheckpointFolder(options.target);
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

int DeleteCheckpoint(Session* session, const CheckpointOptions& options, bool confirmed) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const auto checkpoints = (*client)->ListCheckpoints(options.target);
  const auto checkpoint = checkpoints.ok() ? Find(*checkpoints, options) : checkpoints.status();
  if (!checkpoint.ok()) {
    return session->Fail(checkpoint.status());
  }
  if (!confirmed && !CanAsk()) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("deleting needs --yes when nobody can be asked: ampctl checkpoint delete --yes ", options.target,
                     " ", checkpoint->step())));
  }
  if (!confirmed && !Confirm(absl::StrCat("delete the checkpoint of step ", checkpoint->step(), "?"))) {
    session->Note("nothing was deleted");
    return kExitFailure;
  }
  const absl::Status deleted = (*client)->DeleteCheckpoint(options.target, checkpoint->attempt(), checkpoint->step());
  if (!deleted.ok()) {
    return session->Fail(deleted);
  }
  if (session->options().quiet || session->options().output == OutputFormat::kName) {
    std::printf("%s\n", Printable(checkpoint->path()).c_str());
  } else if (!PrintStructured(*session, *checkpoint)) {
    std::printf("step %lld of attempt %d  deleted\n", static_cast<long long>(checkpoint->step()),
                checkpoint->attempt());
  }
  return kExitOk;
}

}  // namespace ampd::client
