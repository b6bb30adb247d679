#include "client/api/transfer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd::client {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// Returns whether a retry may help after this error. `worker_may_return` is false if the worker with the file was not
// connected when the transfer began: such a worker is rarely back within seconds.
bool IsPassing(const absl::Status& status, bool worker_may_return) {
  const std::string reason = ReasonOf(status);
  if (reason == "WORKER_UNREACHABLE") {
    return worker_may_return;
  }
  return absl::IsUnavailable(status) || reason == "OFFSET_MISMATCH" || reason == "UPLOAD_TAKEN_OVER" ||
         reason == "SERVER_BUSY" || reason == "SERVER_MEMORY";
}

absl::Status CheckDigest(const RemoteFile& remote, const std::string& sha256) {
  return sha256 == remote.sha256 ? absl::OkStatus()
                                 : absl::DataLossError(absl::StrCat("the downloaded content has the SHA-256 ", sha256,
                                                                    ", not ", remote.sha256));
}

absl::Status DownloadInto(const RemoteFile& remote, const std::string& path, const TransferOptions& options) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  struct stat found = {};
  if (!file.ok() || fstat(file.get(), &found) != 0) {
    return ErrnoError(errno, "cannot be opened");
  }
  int64_t num_done = found.st_size;
  const auto append = [&](const std::string& piece) -> absl::Status {
    num_done += static_cast<int64_t>(piece.size());
    if (num_done > remote.size_bytes) {
      return absl::DataLossError(absl::StrCat("the downloaded content has more than ", remote.size_bytes, " bytes"));
    }
    ReportProgress(options, num_done, remote.size_bytes);
    return WriteAll(file.get(), piece);
  };
  AMPD_RETURN_IF_ERROR(Repeat(
      options, num_done, [&] { return remote.receive(num_done, append); }, remote.worker_may_return));
  AMPD_ASSIGN_OR_RETURN(const std::string sha256, DigestOf(path, *options.cancellation));
  return CheckDigest(remote, sha256);
}

}  // namespace

void ReportProgress(const TransferOptions& options, int64_t num_done, int64_t num_bytes) {
  if (options.progress) {
    options.progress(num_done, num_bytes);
  }
}

absl::Status Interrupted() { return absl::CancelledError("interrupted; repeat the command to resume"); }

absl::Status Repeat(const TransferOptions& options, const int64_t& num_done,
                    const std::function<absl::Status()>& transfer, bool worker_may_return) {
  int64_t done_before = num_done;
  absl::Duration give_up = SystemClock().SinceBoot() + options.retry_for;
  absl::Duration pause = absl::Milliseconds(100);
  for (;;) {
    const absl::Status status = transfer();
    if (options.cancellation->cancelled()) {
      return status.ok() ? status : Interrupted();
    }
    if (std::exchange(done_before, num_done) != num_done) {
      give_up = SystemClock().SinceBoot() + options.retry_for;
      pause = absl::Milliseconds(100);
    }
    if (ReasonOf(status) == "UPLOAD_BUSY") {
      // The server is reading back the bytes that it received before the connection broke. This can take minutes, so
      // the time for retries starts again.
      give_up = SystemClock().SinceBoot() + options.retry_for;
    }
    if (status.ok() || !IsPassing(status, worker_may_return || num_done > 0) ||
        SystemClock().SinceBoot() + pause > give_up) {
      return status;
    }
    options.cancellation->WaitFor(pause);
    pause = std::min(pause * 2, absl::Seconds(1));
  }
}

absl::StatusOr<std::string> ReadPiece(int file, int64_t offset, int64_t num_bytes) {
  std::string piece(std::min(kPieceBytes, static_cast<size_t>(num_bytes)), '\0');
  const ssize_t count = pread(file, piece.data(), piece.size(), offset);
  if (count < 0) {
    return ErrnoError(errno, "cannot be read");
  }
  piece.resize(static_cast<size_t>(count));
  return piece;
}

absl::StatusOr<std::string> DigestOf(const std::string& path, const Cancellation& cancellation) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) {
    return ErrnoError(errno, "cannot be opened");
  }
  Sha256 sha256;
  for (int64_t offset = 0; !cancellation.cancelled();) {
    AMPD_ASSIGN_OR_RETURN(const std::string piece, ReadPiece(file.get(), offset, kPieceBytes));
    if (piece.empty()) {
      return sha256.HexDigest();
    }
    sha256.Update(piece);
    offset += static_cast<int64_t>(piece.size());
  }
  return Interrupted();
}

absl::Status StreamRemote(const RemoteFile& remote, const WritePiece& write, const TransferOptions& options) {
  Sha256 sha256;
  int64_t num_done = 0;
  const auto write_and_count = [&](const std::string& piece) {
    sha256.Update(piece);
    num_done += static_cast<int64_t>(piece.size());
    ReportProgress(options, num_done, remote.size_bytes);
    return write(piece);
  };
  AMPD_RETURN_IF_ERROR(Repeat(options, num_done, [&] { return remote.receive(num_done, write_and_count); }));
  return CheckDigest(remote, sha256.HexDigest());
}

absl::Status FillFile(const RemoteFile& remote, const std::string& path, const TransferOptions& options) {
  struct stat found = {};
  const bool goes_on = lstat(path.c_str(), &found) == 0 && found.st_size <= remote.size_bytes;
  if (!goes_on) {
    (void)unlink(path.c_str());  // If there is a file, it has too many bytes.
  }
  absl::Status filled = DownloadInto(remote, path, options);
  if (goes_on && absl::IsDataLoss(filled)) {
    (void)unlink(path.c_str());
    filled = DownloadInto(remote, path, options);
  }
  if (absl::IsDataLoss(filled) || absl::IsNotFound(filled)) {
    (void)unlink(path.c_str());
  }
  return filled;
}

}  // namespace ampd::client
