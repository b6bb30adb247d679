#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.pb.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"

// Files to the server and back. What broke off is gone on with: a server that is out of reach is asked again for
// `retry_for` from the last byte on, and a later call goes on where an earlier one was given up.
namespace ampd::client {

struct TransferOptions {
  absl::Duration retry_for = absl::Seconds(10);
  Cancellation* cancellation = nullptr;  // must be set
  std::function<void(int64_t num_done, int64_t num_bytes)> progress;
};

// A file of this machine, by what is in it.
struct LocalFile {
  std::string path;
  std::string sha256;
  int64_t size_bytes = 0;
};
// Reads it through once. NOT_FOUND and others name the path; INVALID_ARGUMENT for an empty file or none at all;
// CANCELLED by the cancellation.
absl::StatusOr<LocalFile> ReadLocalFile(const std::string& path, const Cancellation& cancellation);

// The artifact of this content; NOT_FOUND when the server does not have all of it.
absl::StatusOr<v1::Artifact> FindUploaded(JobClient* client, const std::string& sha256);

// Sends what the server does not have of the file. ABORTED when the file was changed meanwhile; the server's errors.
absl::StatusOr<v1::Artifact> UploadFile(JobClient* client, const LocalFile& file, const TransferOptions& options);

// Writes the content beside `path` and gives it that name once its digest is right. ALREADY_EXISTS where something is
// there that is not to be replaced; DATA_LOSS for another content than the artifact's.
absl::Status DownloadFile(JobClient* client, const v1::Artifact& artifact, const std::string& path, bool replace,
                          const TransferOptions& options);

// Takes a piece of the content; its error ends the transfer.
using WritePiece = std::function<absl::Status(const std::string& piece)>;

// Gives `write` all of the content in order. DATA_LOSS, behind the last piece, for another content than the artifact's.
absl::Status StreamFile(JobClient* client, const v1::Artifact& artifact, const WritePiece& write,
                        const TransferOptions& options);

}  // namespace ampd::client
