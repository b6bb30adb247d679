#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/api/cancellation.h"

// What all transfers of files have in common. An interrupted transfer resumes at the byte that it reached. While the
// server is out of reach, a transfer retries for `retry_for` and then gives up. A later call for the same content
// resumes where it stopped.
namespace ampd::client {

struct TransferOptions {
  absl::Duration retry_for = absl::Seconds(10);
  Cancellation* cancellation = nullptr;  // must be set
  std::function<void(int64_t num_done, int64_t num_bytes)> progress;
};

void ReportProgress(const TransferOptions& options, int64_t num_done, int64_t num_bytes);

// The status of a transfer that the cancellation ended.
absl::Status Interrupted();

// Calls `transfer` until it succeeds or returns an error that a retry can't fix. Gives up when the transfer makes no
// progress for `retry_for`. `num_done` is the number of bytes transferred so far, which `transfer` advances.
// If a worker does not send its file (WORKER_UNREACHABLE), retries only if `worker_may_return` is true or bytes of the
// file have arrived before.
absl::Status Repeat(const TransferOptions& options, const int64_t& num_done,
                    const std::function<absl::Status()>& transfer, bool worker_may_return = false);

// Reads at most `num_bytes`, and at most 1 MiB, from `offset` on. Returns fewer at the end of the file.
absl::StatusOr<std::string> ReadPiece(int file, int64_t offset, int64_t num_bytes);

// Returns the SHA-256 of the whole file. This takes minutes for a large file. CANCELLED if the cancellation stops it.
absl::StatusOr<std::string> DigestOf(const std::string& path, const Cancellation& cancellation);

// A function that receives the next piece of the content. An error from it ends the transfer.
using WritePiece = std::function<absl::Status(const std::string& piece)>;

// A file that can be downloaded from the server: an artifact, or a file of a checkpoint, which a worker sends through
// the server.
struct RemoteFile {
  std::string sha256;
  int64_t size_bytes = 0;
  // Whether a worker that does not send the file may do so again within seconds, so that a retry can help.
  bool worker_may_return = false;
  // Makes one call that sends the bytes from `offset` on.
  std::function<absl::Status(int64_t offset, const WritePiece& write)> receive;
};

// Passes the whole content to `write`, in order. Returns DATA_LOSS, after the last piece, if the content does not have
// the digest.
absl::Status StreamRemote(const RemoteFile& remote, const WritePiece& write, const TransferOptions& options);

// Downloads the bytes that the file at `path` does not have yet and appends them to it. If the complete file does not
// have the digest, it starts over once, and then deletes the file and returns DATA_LOSS, as for a content that is
// larger than `remote.size_bytes`.
absl::Status FillFile(const RemoteFile& remote, const std::string& path, const TransferOptions& options);

}  // namespace ampd::client
