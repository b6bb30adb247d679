#include "client/api/checkpoint_transfer.h"

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/formats/checkpoint_manifest.h"
#include "base/io/file.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "client/api/job_client_stubs.h"
#include "client/api/receive_pieces.h"

namespace ampd::client {
namespace {

constexpr char kPartial[] = ".partial";

struct Source {
  JobClient* client = nullptr;
  std::string job;
  v1::Checkpoint checkpoint;
};

RemoteFile RemoteFileOf(const Source& source, const std::string& name, const CheckpointManifest::File& file,
                        const TransferOptions& options) {
  RemoteFile remote = {.sha256 = file.sha256, .size_bytes = file.size_bytes};
  remote.worker_may_return = name != kManifestFile;  // The manifest came first, so the worker was connected then.
  v1::DownloadCheckpointFileRequest request;
  request.set_id(source.job);
  request.set_attempt(source.checkpoint.attempt());
  request.set_step(source.checkpoint.step());
  request.set_file_name(name);
  remote.receive = [client = source.client, cancellation = options.cancellation, request](
                       int64_t offset, const WritePiece& write) mutable {
    request.set_offset_bytes(offset);
    return ReceivePieces<v1::DownloadCheckpointFileResponse>(
        cancellation,
        [&](grpc::ClientContext* context) { return client->stubs().jobs->DownloadCheckpointFile(context, request); },
        write);
  };
  return remote;
}

absl::StatusOr<std::string> DownloadManifest(const Source& source, const TransferOptions& options) {
  std::string text;
  const auto append = [&text](const std::string& piece) -> absl::Status {
    text += piece;
    return text.size() <= static_cast<size_t>(kMaxManifestBytes) ? absl::OkStatus()
                                                                 : absl::DataLossError("has more than 1 MiB");
  };
  TransferOptions quiet = options;
  quiet.progress = nullptr;
  const RemoteFile remote =
      RemoteFileOf(source, kManifestFile, {.sha256 = source.checkpoint.manifest_sha256()}, options);
  const absl::Status streamed = StreamRemote(remote, append, quiet);
  if (!streamed.ok()) {
    return absl::IsDataLoss(streamed) ? WithPrefix("the checkpoint's state.json", streamed) : streamed;
  }
  return text;
}

// What the folder has already.
struct Folder {
  bool has_manifest = false;  // whether it has this checkpoint's manifest, so that all its files are of this checkpoint
  std::set<std::string> files;  // complete files of this checkpoint with the right digest; empty if there is a manifest
};

// Looks for the files of a folder without a manifest that are complete, as an interrupted download leaves them. They
// have the names of the checkpoint's files. ALREADY_EXISTS if one has another digest: it is a file of the user, or one
// of another checkpoint.
absl::Status FindCompleteFiles(const std::string& folder, const CheckpointManifest& manifest,
                               const Cancellation& cancellation, std::set<std::string>* files) {
  for (const auto& [name, file] : manifest.files) {
    const std::string path = absl::StrCat(folder, "/", name);
    const auto digest = DigestOf(path, cancellation);
    if (absl::IsCancelled(digest.status())) {
      return digest.status();
    }
    if (digest.ok() && *digest == file.sha256) {
      files->insert(name);
    } else if (digest.ok()) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " exists and is not the file of this checkpoint; name another folder, or move it away"));
    } else if (!absl::IsNotFound(digest.status())) {
      return WithPrefix(path, digest.status());
    }
  }
  return absl::OkStatus();
}

// Examines the folder. ALREADY_EXISTS if it has files that are not of this checkpoint, or the manifest of another
// checkpoint.
absl::StatusOr<Folder> Examine(const std::string& folder, const CheckpointManifest& manifest, const std::string& text,
                               const Cancellation& cancellation) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string whole(absl::StripSuffix(name, kPartial));
    if (!manifest.files.contains(whole) && name != kManifestFile) {
      return absl::AlreadyExistsError(
          absl::StrCat(folder, " has files that are not of this checkpoint, such as ", name, "; name another folder"));
    }
  }
  const auto present = ReadFile(absl::StrCat(folder, "/", kManifestFile), kMaxManifestBytes);
  Folder found = {.has_manifest = present.ok() && *present == text, .files = {}};
  if (!absl::IsNotFound(present.status()) && !found.has_manifest) {
    return absl::AlreadyExistsError(absl::StrCat(folder, " holds another checkpoint; name another folder"));
  }
  if (!found.has_manifest) {
    AMPD_RETURN_IF_ERROR(FindCompleteFiles(folder, manifest, cancellation, &found.files));
  }
  return found;
}

// Downloads one file. If `replace` is true, replaces a file with another digest, and does nothing if the file has the
// right one. If `replace` is false, the file did not exist before; ALREADY_EXISTS if it does now.
absl::Status DownloadOne(const RemoteFile& remote, const std::string& path, bool replace,
                         const TransferOptions& options) {
  const auto present =
      replace ? DigestOf(path, *options.cancellation) : absl::StatusOr<std::string>(absl::NotFoundError(""));
  if (absl::IsCancelled(present.status()) || (present.ok() && *present == remote.sha256)) {
    return present.status();
  }
  const std::string partial = path + kPartial;
  const absl::Status filled = FillFile(remote, partial, options);
  if (!filled.ok()) {
    return ReasonOf(filled).empty() && !absl::IsCancelled(filled) ? WithPrefix(path, filled) : filled;
  }
  if (!replace) {
    return WithPrefix(path, RenameToFreeName(partial, path));
  }
  return rename(partial.c_str(), path.c_str()) == 0 ? absl::OkStatus()
                                                    : WithPrefix(path, ErrnoError(errno, "cannot be renamed"));
}

}  // namespace

absl::StatusOr<DownloadedCheckpoint> DownloadCheckpoint(JobClient* client, const std::string& job,
                                                        const v1::Checkpoint& checkpoint, const std::string& folder,
                                                        const std::function<bool(const std::string& file)>& wants,
                                                        const TransferOptions& options) {
  const Source source = {client, job, checkpoint};
  AMPD_ASSIGN_OR_RETURN(const std::string text, DownloadManifest(source, options));
  const absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) {
    return WithPrefix("the checkpoint's state.json", manifest.status());
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return WithPrefix(folder, ErrnoError(error.value(), "cannot be created"));
  }
  AMPD_ASSIGN_OR_RETURN(const Folder present, Examine(folder, *manifest, text, *options.cancellation));
  int64_t num_bytes = 0;
  std::map<std::string, CheckpointManifest::File> wanted;
  for (const auto& [name, file] : manifest->files) {
    if (wants == nullptr || wants(name)) {
      wanted[name] = file;
      num_bytes += file.size_bytes;
    }
  }
  DownloadedCheckpoint done = {.num_files = 1, .size_bytes = static_cast<int64_t>(text.size())};
  int64_t num_done = 0;
  TransferOptions of_file = options;
  of_file.progress = [&](int64_t of_this, int64_t) { ReportProgress(options, num_done + of_this, num_bytes); };
  for (const auto& [name, file] : wanted) {
    if (!present.files.contains(name)) {
      AMPD_RETURN_IF_ERROR(DownloadOne(RemoteFileOf(source, name, file, options), absl::StrCat(folder, "/", name),
                                       present.has_manifest, of_file));
    }
    num_done += file.size_bytes;
    ++done.num_files;
    done.size_bytes += file.size_bytes;
  }
  const std::string path = absl::StrCat(folder, "/", kManifestFile);
  const absl::Status written = WriteFileAtomically(path, text, kUserFile);
  return written.ok() ? absl::StatusOr<DownloadedCheckpoint>(done) : WithPrefix(path, written);
}

}  // namespace ampd::client
