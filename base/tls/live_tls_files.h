#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"
#include "base/unique_fd.h"

namespace ampd {

// Copies of TLS files in memory, for gRPC, which reads files by their paths and looks once a second whether they have
// changed. If it read the files of an operator, it would now and then find the new key beside the old certificate, or
// half a file, and would then refuse all new connections until it looks again. The copies change in one moment, and
// only to files that fit together (ReadTlsFiles). Thread-safe.
class LiveTlsFiles {
 public:
  // Returns copies of the files, which a thread keeps up to date: it reads the files once a second. Calls for the same
  // files return the same object. It is never deleted, because gRPC's threads read the copies for as long as
  // connections live. Returns the errors of ReadTlsFiles, or an error if the process has no file descriptor left.
  static absl::StatusOr<const LiveTlsFiles*> Of(const TlsFiles& files);

  // Returns the paths at which this process can read the copies. The certificate and its key are in one file.
  const TlsFiles& paths() const { return paths_; }

 private:
  class Registry;

  explicit LiveTlsFiles(TlsFiles files) : files_(std::move(files)) {}
  // Reads the files again, and changes the copies if the files have changed and fit together.
  absl::Status Refresh();
  void SetPaths();

  const TlsFiles files_;
  TlsFiles paths_;  // Never changes after the first read: the descriptors keep their numbers.
  UniqueFd ca_;
  UniqueFd certificate_and_key_;
  TlsTexts texts_;  // The contents of the copies.
};

}  // namespace ampd
