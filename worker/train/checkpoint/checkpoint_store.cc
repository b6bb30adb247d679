#include "worker/train/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <future>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/formats/checkpoint_manifest.h"
#include "base/formats/sha256.h"
#include "base/io/direct_file.h"
#include "base/io/file.h"
#include "base/io/private_folder.h"
#include "base/status_macros.h"

namespace ampd::train {
namespace {

absl::Status CheckpointError(const std::string& message) {
  return Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR", message);
}

constexpr char kDamaged[] = "damaged_checkpoint";

// The error for a checkpoint that is missing on disk or whose files differ from their recorded hashes.
absl::Status Damaged(const std::string& path, const std::string& message) {
  return ErrorWithMetadata(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR", message, {{kDamaged, path}});
}

// The error for a checkpoint that could not be saved. The reason is DISK_FULL if `status` has that reason, and
// otherwise CHECKPOINT_ERROR.
absl::Status NotSaved(const absl::Status& status, int64_t step) {
  // Drop the operation from messages like "rename: No such file or directory", because users don't know these
  // operations.
  const std::string text(status.message());
  const size_t colon = text.find(": ");
  const std::string message = absl::StrCat("the checkpoint of step ", step,
                                           " can't be written: ", colon == text.npos ? text : text.substr(colon + 2));
  if (ReasonOf(status) == "DISK_FULL") {
    return Error(status.code(), "DISK_FULL", message + "; free space on the disk of the worker's checkpoint root");
  }
  return CheckpointError(message + "; the worker must be able to write below its checkpoint root");
}

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Accepts only "<job>/<attempt>/step-<n>": neither a path out of the root nor a temporary folder.
absl::Status CheckPath(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  constexpr std::string_view kStep = "step-";
  if (parts.size() != 3 || !IsWord(parts[0]) || !IsNumber(parts[1]) || parts[2].compare(0, kStep.size(), kStep) != 0 ||
      !IsNumber(std::string_view(parts[2]).substr(kStep.size()))) {
    return CheckpointError("a checkpoint's path is not <job>/<attempt>/step-<n>");
  }
  return absl::OkStatus();
}

// The entries of a folder; empty if the folder does not exist. If reading fails midway, the entries read so far.
std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  return entries;
}

bool IsTemporary(const std::string& name) { return name.starts_with(".step-") && name.ends_with(".tmp"); }

CheckpointManifest::File Describe(const CheckpointContent::File& file) {
  Sha256 hash;
  int64_t size = 0;
  for (const std::string_view part : file.parts) {
    hash.Update(part);
    size += static_cast<int64_t>(part.size());
  }
  return {hash.HexDigest(), size};
}

SavedCheckpoint Summarise(const CheckpointManifest& manifest, const std::string& path) {
  const std::string text = WriteManifest(manifest);
  SavedCheckpoint saved = {.path = path,
                           .size_bytes = static_cast<int64_t>(text.size()),
                           .manifest_sha256 = Sha256Hex(text),
                           .state_hash = StateHash(manifest)};
  for (const auto& [name, file] : manifest.files) {
    saved.size_bytes += file.size_bytes;
  }
  return saved;
}

}  // namespace

std::string DamagedCheckpoint(const absl::Status& status) {
  const ErrorMetadata metadata = MetadataOf(status);
  const auto path = metadata.find(kDamaged);
  return path == metadata.end() ? "" : path->second;
}

absl::Status CheckpointIo::MakeFolders(const std::string& path) {
  // The agent removes empty folders (RemoveBelow in checkpoint_remover.cc). It may remove a folder right after this
  // function made it, so retry.
  constexpr int kMaxTries = 8;
  absl::Status made = absl::NotFoundError("");
  for (int i = 0; i < kMaxTries && absl::IsNotFound(made); ++i) {
    made = MakePrivateFolders(path);
  }
  return made;
}

absl::Status CheckpointIo::WriteFile(const std::string& path, const std::vector<std::string_view>& parts) {
  int64_t size = 0;
  for (const std::string_view part : parts) {
    size += static_cast<int64_t>(part.size());
  }
  AMPD_ASSIGN_OR_RETURN(DirectFile file, DirectFile::Create(path, size));
  for (const std::string_view part : parts) {
    AMPD_RETURN_IF_ERROR(file.Append(part));
  }
  return file.Sync();
}

absl::Status CheckpointIo::SyncFolder(const std::string& path) { return ampd::SyncFolder(path); }

absl::Status CheckpointIo::Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoError(errno, "rename");
}

absl::Status CheckpointIo::RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? ErrnoError(error.value(), "remove") : absl::OkStatus();
}

// Removes the temporary folders that remain if an attempt is killed while it saves. A job has one attempt at a time, so
// no other process writes to them.
void CheckpointStore::RemoveLeftovers(const std::string& job_id) {
  for (const std::filesystem::path& attempt : EntriesOf(std::filesystem::path(root_) / job_id)) {
    for (const std::filesystem::path& entry : EntriesOf(attempt)) {
      if (IsTemporary(entry.filename().string())) {
        io_.RemoveAll(entry.string()).IgnoreError();
      }
    }
  }
}

absl::Status CheckpointStore::MakeDurable(const CheckpointContent& content, const std::string& temporary,
                                          const std::function<std::string()>& manifest) {
  const std::string job = absl::StrCat(root_, "/", content.job_id);
  const std::string attempt = absl::StrCat(job, "/", content.attempt);
  AMPD_RETURN_IF_ERROR(io_.RemoveAll(temporary));
  AMPD_RETURN_IF_ERROR(io_.MakeFolders(temporary));
  for (const CheckpointContent::File& file : content.files) {
    AMPD_RETURN_IF_ERROR(io_.WriteFile(absl::StrCat(temporary, "/", file.name), file.parts));
  }
  AMPD_RETURN_IF_ERROR(io_.WriteFile(absl::StrCat(temporary, "/", kManifestFile), {manifest()}));
  AMPD_RETURN_IF_ERROR(io_.SyncFolder(temporary));
  AMPD_RETURN_IF_ERROR(io_.Rename(temporary, absl::StrCat(attempt, "/step-", content.step)));
  // Syncing the parent folders makes the rename durable. If this save created the parent folders, it makes them durable
  // too.
  AMPD_RETURN_IF_ERROR(io_.SyncFolder(attempt));
  AMPD_RETURN_IF_ERROR(io_.SyncFolder(job));
  return io_.SyncFolder(root_);
}

absl::StatusOr<SavedCheckpoint> CheckpointStore::Save(const CheckpointContent& content) {
  const std::string path = absl::StrCat(content.job_id, "/", content.attempt, "/step-", content.step);
  AMPD_RETURN_IF_ERROR(CheckPath(path));
  CheckpointManifest manifest = {.job_id = content.job_id,
                                 .attempt = content.attempt,
                                 .token = content.token,
                                 .step = content.step,
                                 .state = content.state,
                                 .environment = content.environment,
                                 .files = {}};
  // Hash the files on other threads while they are written, because hashing takes about as long as writing.
  std::map<std::string, std::shared_future<CheckpointManifest::File>> described;
  for (const CheckpointContent::File& file : content.files) {
    described[file.name] = std::async(std::launch::async, [&file] { return Describe(file); });
  }
  const auto text = [&manifest, &described] {
    for (const auto& [name, file] : described) {
      manifest.files[name] = file.get();
    }
    return WriteManifest(manifest);
  };
  if (const auto there = ReadFile(absl::StrCat(root_, "/", path, "/", kManifestFile), kMaxManifestBytes);
      there.ok() && *there == text()) {
    return Summarise(manifest, path);
  }
  const std::string temporary =
      absl::StrCat(root_, "/", content.job_id, "/", content.attempt, "/.step-", content.step, ".tmp");
  RemoveLeftovers(content.job_id);  // Frees the disk space of interrupted saves before this save needs space.
  if (const absl::Status status = MakeDurable(content, temporary, text); !status.ok()) {
    io_.RemoveAll(temporary).IgnoreError();
    return NotSaved(status, content.step);
  }
  return Summarise(manifest, path);
}

absl::StatusOr<CheckpointManifest> CheckpointStore::LoadManifest(const std::string& path,
                                                                 const std::string& manifest_sha256) const {
  AMPD_RETURN_IF_ERROR(CheckPath(path));
  const auto text = ReadFile(absl::StrCat(root_, "/", path, "/", kManifestFile), kMaxManifestBytes);
  if (!text.ok()) {
    return Damaged(path, absl::StrCat(path, "/", kManifestFile, ": ", text.status().message()));
  }
  if (Sha256Hex(*text) != manifest_sha256) {
    return Damaged(path, absl::StrCat(path, "/", kManifestFile, " is not the one that was recorded"));
  }
  auto manifest = ParseManifest(*text);
  return manifest.ok() ? std::move(manifest)
                       : CheckpointError(absl::StrCat(path, "/", kManifestFile, " ", manifest.status().message()));
}

absl::StatusOr<std::string> CheckpointStore::LoadFile(const std::string& path, const std::string& name,
                                                      const CheckpointManifest::File& file) const {
  auto content = ReadFile(absl::StrCat(root_, "/", path, "/", name), file.size_bytes);
  if (!content.ok() || Sha256Hex(*content) != file.sha256) {
    return Damaged(path, absl::StrCat(path, "/", name, " is missing or not the one that was recorded"));
  }
  return content;
}

absl::StatusOr<LoadedCheckpoint> CheckpointStore::Load(const std::string& path,
                                                       const std::string& manifest_sha256) const {
  AMPD_ASSIGN_OR_RETURN(CheckpointManifest manifest, LoadManifest(path, manifest_sha256));
  LoadedCheckpoint loaded;
  loaded.job_id = manifest.job_id;
  loaded.step = manifest.step;
  loaded.state_hash = StateHash(manifest);
  for (const auto& [name, file] : manifest.files) {
    AMPD_ASSIGN_OR_RETURN(loaded.files[name], LoadFile(path, name, file));
  }
  loaded.state = std::move(manifest.state);
  loaded.environment = std::move(manifest.environment);
  return loaded;
}

absl::StatusOr<std::string> CheckpointStore::LoadFile(const std::string& path, const std::string& manifest_sha256,
                                                      const std::string& name) const {
  AMPD_ASSIGN_OR_RETURN(const CheckpointManifest manifest, LoadManifest(path, manifest_sha256));
  const auto file = manifest.files.find(name);
  return file == manifest.files.end() ? CheckpointError(absl::StrCat(path, " has no ", name))
                                      : LoadFile(path, name, file->second);
}

}  // namespace ampd::train
