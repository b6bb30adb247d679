#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"

namespace ampd::agent {

// The folder of one shim (the parent process of a trainer) and its trainer, `<state>/spawn/<spawn id>/`:
//
//   record         internal.SpawnRecord, written before the shim starts and replaced atomically
//   exit           internal.ShimStatus, written by the shim at its end
//   oom-guess      an empty file; exists if the out-of-memory flag in `exit` is a guess (worker/shim/oom_kills.h)
//   shim.sock      the shim listens here
//   trainer.sock   the trainer listens here
//   shim.log       the shim's own messages; it exists before the shim's program begins
//   trainer.log.*  the attempt's log (worker/shim/attempt_log.h)
//
// Thread-compatible.
class SpawnFolder {
 public:
  // Makes the folder and writes the record. Returns errors of the file system, such as RESOURCE_EXHAUSTED (DISK_FULL)
  // or PERMISSION_DENIED.
  static absl::StatusOr<SpawnFolder> Create(const std::string& state_folder, const internal::SpawnRecord& record);

  // Lists all folders for which a shim may have been started, and removes all other folders. It removes a folder if
  // its record is not readable, or if the agent ended after it wrote the record and before it started the shim. If
  // the record is not readable because the disk damaged it, a shim may still run: it ends by itself once its lease
  // and suspend limit have run out. REQUIRES: the caller holds the lock of the state folder, so that no earlier agent
  // is starting a shim.
  static std::vector<SpawnFolder> List(const std::string& state_folder);

  absl::Status Write(const internal::SpawnRecord& record);
  const internal::SpawnRecord& record() const { return record_; }

  // The exit status; empty until the shim has written it.
  std::optional<internal::ShimStatus> ReadExit() const;
  // Whether the out-of-memory flag in the exit status is only a guess of the shim.
  bool OomIsAGuess() const;
  // The last line of the trainer's log, shortened and without control characters; empty if there is none.
  std::string LastLogLine() const;
  void Remove();

  const std::string& path() const { return path_; }
  std::string shim_socket() const { return path_ + "/shim.sock"; }
  std::string trainer_socket() const { return path_ + "/trainer.sock"; }
  std::string shim_log() const { return path_ + "/shim.log"; }

 private:
  explicit SpawnFolder(std::string path) : path_(std::move(path)) {}

  bool Read();
  bool ShimMayHaveBegun() const;

  std::string path_;
  internal::SpawnRecord record_;
};

}  // namespace ampd::agent
