#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/api/cancellation.h"

// The parts that uploads and downloads of files share. An interrupted transfer resumes at the byte that it reached. If
// the server is unreachable, a transfer retries for `retry_for` and then gives up. A later call with the same content
// resumes this transfer.
namespace ampd::client {

struct TransferOptions {
  absl::Duration retry_for = absl::Seconds(10);
  Cancellation* cancellation = nullptr;  // must be set
  std::function<void(int64_t num_done, int64_t num_bytes)> progress;
};

void ReportProgress(const TransferOptions& options, int64_t num_done, int64_t num_bytes);

// Returns the error of a transfer that the cancellation ended.
absl::Status Interrupted();

// Calls `transfer` until it succeeds or returns an error that a retry can't fix. `transfer` advances `num_done`, the
// number of bytes transferred so far; Repeat gives up when this number does not grow for `retry_for`. After
// WORKER_UNREACHABLE (the worker with the file is not connected), Repeat retries only if `worker_may_return` is true or
// `num_done` is above 0.
absl::Status Repeat(const TransferOptions& options, const int64_t& num_done,
                    const std::function<absl::Status()>& transfer, bool worker_may_return = false);

// Reads `num_bytes` from `offset` on, but at most 1 MiB. Returns fewer bytes at the end of the file.
absl::StatusOr<std::string> ReadPiece(int file, int64_t offset, int64_t num_bytes);

// Returns the SHA-256 of the whole file. This takes minutes for a large file. CANCELLED if the cancellation stops it.
absl::StatusOr<std::string> DigestOf(const std::string& path, const Cancellation& cancellation);

// A function that receives the next piece of the content. An error from it ends the transfer.
using WritePiece = std::function<absl::Status(const std::string& piece)>;

// A file that can be downloaded from the server: an artifact, or a file of a checkpoint. Checkpoints are on workers,
// which send them through the server.
struct RemoteFile {
  std::string sha256;
  int64_t size_bytes = 0;
  // Whether to retry if the worker with the file is not connected, because it is likely to return within seconds.
  bool worker_may_return = false;
  // Makes one call that downloads the bytes from `offset` on and passes them to `write`.
  std::function<absl::Status(int64_t offset, const WritePiece& write)> receive;
};

// Downloads the whole content and passes it to `write`, in order. Returns DATA_LOSS, after the last piece, if the
// content does not have the digest.
absl::Status StreamRemote(const RemoteFile& remote, const WritePiece& write, const TransferOptions& options);

// Completes the partial file at `path`: downloads the bytes that it lacks and appends them. If the result has another
// digest or is larger than `remote.size_bytes`, starts over once without the partial file. If that fails too, deletes
// the file and returns DATA_LOSS.
absl::Status FillFile(const RemoteFile& remote, const std::string& path, const TransferOptions& options);

}  // namespace ampd::client
