#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/artifact_service.pb.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"
#include "client/api/transfer.h"

// Transfers artifacts to and from the server, as transfer.h describes.
namespace ampd::client {

// A file on this machine, with its digest and size.
struct LocalFile {
  std::string path;
  std::string sha256;
  int64_t size_bytes = 0;
};
// Describes the file at `path`. Reads it once, to compute the digest. INVALID_ARGUMENT if the file is empty or not a
// regular file; CANCELLED if the cancellation stops the reading; NOT_FOUND and other errors of the file system. Every
// error names the path.
absl::StatusOr<LocalFile> ReadLocalFile(const std::string& path, const Cancellation& cancellation);

// Returns the artifact whose content has this SHA-256. NOT_FOUND if the server does not have the complete content.
absl::StatusOr<v1::Artifact> FindUploaded(JobClient* client, const std::string& sha256);

// Uploads the file and returns its artifact. Sends only the bytes that the server does not have yet. ABORTED if the
// file changes during the upload; otherwise the server's errors.
absl::StatusOr<v1::Artifact> UploadFile(JobClient* client, const LocalFile& file, const TransferOptions& options);

// Downloads the artifact to `path`. The bytes go into a partial file in the same folder, which is renamed to `path`
// once its digest matches. ALREADY_EXISTS if `path` exists and `replace` is false; DATA_LOSS if the content does not
// match the artifact's digest.
absl::Status DownloadFile(JobClient* client, const v1::Artifact& artifact, const std::string& path, bool replace,
                          const TransferOptions& options);

// Downloads the artifact and passes its whole content to `write`, in order. Returns DATA_LOSS, after the last piece,
// if the content does not match the artifact's digest.
absl::Status StreamFile(JobClient* client, const v1::Artifact& artifact, const WritePiece& write,
                        const TransferOptions& options);

// Downloads the artifacts and joins their contents, in order, in one file. The file gets the name `path` once it is
// complete. Reports progress in whole artifacts. Returns the errors of DownloadFile.
absl::Status DownloadJoined(JobClient* client, const std::vector<v1::Artifact>& artifacts, const std::string& path,
                            bool replace, const TransferOptions& options);

}  // namespace ampd::client
