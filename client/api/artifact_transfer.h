#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.pb.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"

// Transfers files to and from the server. An interrupted transfer resumes at the byte that it reached. While the server
// is out of reach, the call retries for `retry_for`; a later call resumes a transfer that was given up.
namespace ampd::client {

struct TransferOptions {
  absl::Duration retry_for = absl::Seconds(10);
  Cancellation* cancellation = nullptr;  // must be set
  std::function<void(int64_t num_done, int64_t num_bytes)> progress;
};

// A file of this machine, with its digest and size.
struct LocalFile {
  std::string path;
  std::string sha256;
  int64_t size_bytes = 0;
};
// Reads the whole file once. INVALID_ARGUMENT if the file is empty or not a regular file; CANCELLED by the
// cancellation; NOT_FOUND and others. Every error names the path.
absl::StatusOr<LocalFile> ReadLocalFile(const std::string& path, const Cancellation& cancellation);

// The artifact with this content. NOT_FOUND if the server does not have all of it.
absl::StatusOr<v1::Artifact> FindUploaded(JobClient* client, const std::string& sha256);

// Sends those bytes of the file that the server does not have. ABORTED if the file was changed meanwhile; otherwise the
// server's errors.
absl::StatusOr<v1::Artifact> UploadFile(JobClient* client, const LocalFile& file, const TransferOptions& options);

// Downloads into a file beside `path` and renames it to `path` once the digest matches. ALREADY_EXISTS if `path` exists
// and `replace` is false; DATA_LOSS if the content does not match the artifact's digest.
absl::Status DownloadFile(JobClient* client, const v1::Artifact& artifact, const std::string& path, bool replace,
                          const TransferOptions& options);

// Receives one piece of the content; an error ends the transfer.
using WritePiece = std::function<absl::Status(const std::string& piece)>;

// Passes the whole content to `write`, in order. DATA_LOSS, after the last piece, if the content does not match the
// artifact's digest.
absl::Status StreamFile(JobClient* client, const v1::Artifact& artifact, const WritePiece& write,
                        const TransferOptions& options);

}  // namespace ampd::client
