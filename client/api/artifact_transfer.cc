#include "client/api/artifact_transfer.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/grpc_deadline.h"
#include "base/io/file.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/api/cancels_call.h"
#include "client/api/end_of_call.h"
#include "client/api/job_client_stubs.h"
#include "client/api/receive_pieces.h"

namespace ampd::client {
namespace {

constexpr size_t kDigitsOfPartial = 12;  // number of the digest's digits in the name of a partial file

// Uploads the bytes of the file from `*num_done` on, in one stream. Advances `*num_done` with each piece that it sends.
absl::StatusOr<v1::Artifact> Send(JobClient* client, const LocalFile& file, int descriptor,
                                  const TransferOptions& options, int64_t* num_done) {
  grpc::ClientContext context;
  const CancelsCall cancels(options.cancellation, &context);
  v1::Artifact artifact;
  const auto stream = client->stubs().artifacts->UploadArtifact(&context, &artifact);
  v1::UploadArtifactRequest request;
  request.set_file_name(ValidUtf8(std::filesystem::path(file.path).filename().string()));
  request.set_sha256(file.sha256);
  request.set_size_bytes(file.size_bytes);
  request.set_offset_bytes(*num_done);
  request.set_tenant(client->tenant());
  bool goes_on = stream->Write(request);
  while (goes_on && *num_done < file.size_bytes) {
    auto piece = ReadPiece(descriptor, *num_done, file.size_bytes - *num_done);
    if (!piece.ok() || piece->empty()) {
      context.TryCancel();
      stream->Finish();
      return WithPrefix(file.path, piece.ok() ? absl::AbortedError("was truncated during the upload") : piece.status());
    }
    v1::UploadArtifactRequest next;
    next.set_content(*std::move(piece));
    *num_done += static_cast<int64_t>(next.content().size());
    goes_on = stream->Write(next);
    ReportProgress(options, *num_done, file.size_bytes);
  }
  stream->WritesDone();
  const absl::Status status = EndOfCall(stream->Finish(), options.cancellation->cancelled());
  return status.ok() ? absl::StatusOr<v1::Artifact>(artifact) : status;
}

absl::StatusOr<v1::Upload> GetUpload(JobClient* client, const std::string& sha256) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(absl::Seconds(30)));
  v1::GetUploadRequest request;
  request.set_sha256(sha256);
  request.set_tenant(client->tenant());
  v1::Upload upload;
  const absl::Status status = EndOfCall(client->stubs().artifacts->GetUpload(&context, request, &upload));
  return status.ok() ? absl::StatusOr<v1::Upload>(upload) : status;
}

RemoteFile RemoteFileOf(JobClient* client, const v1::Artifact& artifact, const TransferOptions& options) {
  RemoteFile remote = {.sha256 = artifact.sha256(), .size_bytes = artifact.size_bytes()};
  remote.receive = [client, name = artifact.name(), tenant = artifact.tenant(), cancellation = options.cancellation](
                       int64_t offset, const WritePiece& write) {
    v1::DownloadArtifactRequest request;
    request.set_name(name);
    request.set_offset_bytes(offset);
    request.set_tenant(tenant);
    return ReceivePieces<v1::DownloadArtifactResponse>(
        cancellation,
        [&](grpc::ClientContext* context) { return client->stubs().artifacts->DownloadArtifact(context, request); },
        write);
  };
  return remote;
}

}  // namespace

absl::StatusOr<LocalFile> ReadLocalFile(const std::string& path, const Cancellation& cancellation) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) {
    return WithPrefix(path, ErrnoError(errno, "cannot be opened"));
  }
  if (!S_ISREG(found.st_mode) || found.st_size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", S_ISREG(found.st_mode) ? "is empty" : "is not a regular file"));
  }
  auto sha256 = DigestOf(path, cancellation);
  if (!sha256.ok()) {
    return absl::IsCancelled(sha256.status()) ? sha256.status() : WithPrefix(path, sha256.status());
  }
  return LocalFile{path, *std::move(sha256), found.st_size};
}

absl::StatusOr<v1::Artifact> FindUploaded(JobClient* client, const std::string& sha256) {
  AMPD_ASSIGN_OR_RETURN(const v1::Upload upload, GetUpload(client, sha256));
  if (!upload.has_artifact()) {
    return ErrorWithMetadata(absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND",
                             absl::StrCat("there is no artifact \"", sha256, "\""), {{"artifact", sha256}});
  }
  return upload.artifact();
}

absl::StatusOr<v1::Artifact> UploadFile(JobClient* client, const LocalFile& file, const TransferOptions& options) {
  const UniqueFd opened(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.ok()) {
    return WithPrefix(file.path, ErrnoError(errno, "cannot be opened"));
  }
  int64_t num_done = 0;
  v1::Artifact artifact;
  int num_starts = 0;  // number of upload streams that began at the first byte
  const auto send = [&]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(const v1::Upload upload, GetUpload(client, file.sha256));
    if (upload.has_artifact()) {
      artifact = upload.artifact();
      return absl::OkStatus();
    }
    num_done = upload.received_bytes();
    num_starts += num_done == 0 ? 1 : 0;
    AMPD_ASSIGN_OR_RETURN(artifact, Send(client, file, opened.get(), options, &num_done));
    return absl::OkStatus();
  };
  absl::Status sent = Repeat(options, num_done, send);
  if (ReasonOf(sent) == "DIGEST_MISMATCH" && num_starts == 0) {
    sent = Repeat(options, num_done, send);  // the server had another file's bytes, now discarded; start over
  }
  if (ReasonOf(sent) == "DIGEST_MISMATCH") {
    return WithPrefix(file.path, absl::AbortedError("was changed during the upload"));
  }
  if (absl::IsResourceExhausted(sent)) {
    return WithPrefix(file.path, sent);
  }
  AMPD_RETURN_IF_ERROR(sent);
  return artifact;
}

absl::Status DownloadFile(JobClient* client, const v1::Artifact& artifact, const std::string& path, bool replace,
                          const TransferOptions& options) {
  const auto taken =
      absl::AlreadyExistsError(absl::StrCat(path, " exists; name another file, or replace it with --force"));
  if (!replace && access(path.c_str(), F_OK) == 0) {
    return taken;
  }
  const std::string partial = absl::StrCat(path, ".", artifact.sha256().substr(0, kDigitsOfPartial), ".partial");
  const absl::Status filled = FillFile(RemoteFileOf(client, artifact, options), partial, options);
  if (!filled.ok()) {
    return ReasonOf(filled).empty() && !absl::IsCancelled(filled) ? WithPrefix(path, filled) : filled;
  }
  if (!replace) {
    const absl::Status renamed = RenameToFreeName(partial, path);
    return absl::IsAlreadyExists(renamed) ? taken : WithPrefix(path, renamed);
  }
  return rename(partial.c_str(), path.c_str()) == 0 ? absl::OkStatus()
                                                    : WithPrefix(path, ErrnoError(errno, "cannot be renamed"));
}

absl::Status StreamFile(JobClient* client, const v1::Artifact& artifact, const WritePiece& write,
                        const TransferOptions& options) {
  return StreamRemote(RemoteFileOf(client, artifact, options), write, options);
}

absl::Status DownloadJoined(JobClient* client, const std::vector<v1::Artifact>& artifacts, const std::string& path,
                            bool replace, const TransferOptions& options) {
  auto file = PendingFile::Create(path, replace);
  if (!file.ok()) {
    return WithPrefix(path, file.status());
  }
  TransferOptions of_each = options;
  of_each.progress = nullptr;
  for (size_t i = 0; i < artifacts.size(); ++i) {
    AMPD_RETURN_IF_ERROR(StreamFile(
        client, artifacts[i], [&file](const std::string& piece) { return file->Append(piece); }, of_each));
    ReportProgress(options, static_cast<int64_t>(i + 1), static_cast<int64_t>(artifacts.size()));
  }
  const absl::Status committed = file->Commit();
  return committed.ok() ? committed : WithPrefix(path, committed);
}

}  // namespace ampd::client
