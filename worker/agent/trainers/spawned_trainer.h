#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "base/ipc/child_reaper.h"
#include "worker/agent/trainers/frame_channel.h"
#include "worker/agent/trainers/spawn_folder.h"

namespace ampd::agent {

// Name of an environment variable that holds the spawn's token. Every process below a shim inherits it.
inline constexpr char kTokenVariable[] = "AMPD_SPAWN_TOKEN";

// One shim and its trainer, started by this agent or by an earlier one. The trainer counts as exited when the shim has
// written the exit status, or when the shim and all processes with the spawn's token (kTokenVariable) are gone.
// Single-threaded; owner: the agent's loop.
//
//   warm (started, without an attempt) --Bind--> bound (to an attempt) --trainer ends--> exited
class SpawnedTrainer {
 public:
  struct Command {
    std::string shim;
    std::vector<std::string> trainer;  // program and arguments; the spawn folder and the device are appended
  };

  // Writes the record, then starts the shim and adds it to `reaper`. The caller sets the id, token and device in
  // `record`, and the attempt's key if the trainer is bound to an attempt.
  static absl::StatusOr<std::unique_ptr<SpawnedTrainer>> Start(const std::string& state_folder,
                                                               internal::SpawnRecord record, const Command& command,
                                                               ChildReaper& reaper);
  // Makes the object for a shim that an earlier agent started. The shim may have ended since.
  static std::unique_ptr<SpawnedTrainer> Adopt(SpawnFolder folder);

  // Binds the trainer to an attempt, by writing the attempt's key and traceparent to the record.
  absl::Status Bind(const v1::AttemptKey& key, const std::string& traceparent);

  // Renews the lease to `deadline`. If the lease runs out, the shim suspends the trainer. If the trainer is still
  // suspended after `suspend_limit`, the shim kills it.
  void SetLease(absl::Duration deadline, absl::Duration suspend_limit);
  // Makes the shim kill the trainer and all other processes below the shim.
  void Kill();
  void SendToTrainer(const internal::TrainerCommand& command);

  // Connects to the shim and to the trainer if necessary, exchanges messages with them, and detects that they have
  // exited. Returns the trainer's reports. If `read_trainer` is false, the reports stay in the socket, which blocks the
  // trainer.
  std::vector<internal::TrainerReport> Poll(absl::Duration now, bool read_trainer);

  const internal::SpawnRecord& record() const { return folder_.record(); }
  SpawnFolder& folder() { return folder_; }
  const SpawnFolder& folder() const { return folder_; }
  bool bound() const { return record().has_key(); }
  bool killed() const { return command_.kill(); }  // Whether Kill was called. The trainer may not have exited yet.
  // Whether the trainer is suspended now or was suspended at any time since the last Poll.
  bool suspended() const { return shim_status_.suspended() || was_suspended_; }
  bool trainer_connected() const { return trainer_.connected(); }
  // Whether the shim has confirmed a lease that lasts until `deadline` or longer.
  bool HasLease(absl::Duration deadline) const;
  // Number of connections made to the trainer so far. After each new connection, the agent must send its commands
  // again.
  int num_trainer_connections() const { return num_trainer_connections_; }
  // The trainer's Hello on its newest connection; empty until it arrives.
  const std::optional<internal::Hello>& hello() const { return hello_; }
  // Whether the trainer has sent a report that can't be parsed. What it said is lost, and a new connection would only
  // bring the same report again.
  bool sent_unreadable() const { return sent_unreadable_; }
  bool exited() const { return exited_; }
  // The exit status, set when exited() becomes true; empty if the shim ended without writing or sending it.
  const std::optional<internal::ShimStatus>& exit() const { return exit_; }
  // Why the trainer ended before its first Hello, with the end of its log: for example because a library is missing.
  // Empty if it was ready before, has not ended, or was killed. Also empty if an earlier agent started it, because then
  // nobody knows whether it was ready.
  std::string WhyNotReady() const;

  const FrameChannel& shim_channel() const { return shim_; }
  const FrameChannel& trainer_channel() const { return trainer_; }

 private:
  explicit SpawnedTrainer(SpawnFolder folder);
  void ReadTrainer(std::vector<internal::TrainerReport>* reports);
  void PollShim(absl::Duration now);
  void SendToShim();
  void DetectExit();
  bool ShimIsAlive() const;

  SpawnFolder folder_;
  FrameChannel shim_;
  FrameChannel trainer_;
  internal::ShimStatus shim_status_;
  bool was_suspended_ = false;
  internal::ShimCommand command_;  // what the shim must do; sent again on every connection
  int num_trainer_connections_ = 0;
  std::optional<internal::Hello> hello_;
  bool may_have_been_ready_ = false;
  bool sent_unreadable_ = false;
  absl::Duration next_search_;
  bool exited_ = false;
  std::optional<internal::ShimStatus> exit_;
};

}  // namespace ampd::agent
