#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "base/ipc/compute_lease.h"
#include "base/ipc/frames.h"
#include "worker/shim/attempt_log.h"
#include "worker/shim/lease_timer.h"
#include "worker/shim/oom_kills.h"

namespace ampd::shim {

// The parent process of one trainer and of everything that the trainer starts. It keeps the trainer's lease, log and
// exit status, and leaves no process behind. It continues when the agent ends; an agent may connect to shim.sock in the
// spawn folder at any time.
//
//   1. agent   starts the shim in a new session; the shim listens, then starts the trainer
//   2. agent   connects                         -> ShimStatus{trainer_pid}
//   3. agent   ShimCommand{lease deadline}      -> ShimStatus{that deadline}; only then the agent binds the trainer
//   4. the deadline comes                       -> all processes are stopped just before it, ShimStatus{suspended}; if
//                                                  the stop is late, the trainer begins no step (ComputeLease)
//   5. agent   ShimCommand{later deadline}      -> all processes continue, ShimStatus
//   6. no lease and no agent for a long time    -> all processes are killed, because no agent will use this trainer
//   7. the trainer ends                         -> the remaining processes are killed, the file `exit` is written,
//                                                  ShimStatus{exited}, the shim ends. While the disk is full, the shim
//                                                  waits; after any other error it soon ends without the file
//
// Single-threaded; owner: the main thread.
class Shim {
 public:
  struct Options {
    std::string folder;
    std::vector<std::string> trainer;  // program and arguments
    AttemptLogWriter::Limits log;
    absl::Duration unattended_limit = absl::Minutes(10);  // maximum time without a lease and a connected agent
    // How often the shim tries to write the exit file, 200 ms apart, if the disk is not full but cannot be written for
    // another reason: because it has become read-only, for example.
    int max_exit_tries = 25;
    const Clock* clock = nullptr;
  };
  explicit Shim(Options options);

  // Returns once the trainer has ended, no process below the shim is left, and the exit status is on disk or cannot be
  // written.
  absl::Status Run();

 private:
  struct Client {
    UniqueFd socket;
    FrameDecoder decoder;
  };

  absl::Status Start();
  absl::Status StartTrainer();
  void RunOnce();
  void ArmTimer();
  void OnSignals();
  void OnTrainerEnd(int wait_status, int64_t max_rss_kib);
  void AcceptClient();
  bool ReadClient(Client& client);
  void OnCommand(const internal::ShimCommand& command);
  void EnforceLease();
  void Kill();
  void ReadOutput();
  bool Finish();
  std::string Reserve() const;
  internal::ShimStatus Status() const;
  void Broadcast();

  const Options options_;
  AttemptLogWriter log_;
  LeaseTimer lease_;
  ComputeLease shared_lease_;
  UniqueFd signals_;
  UniqueFd timer_;
  UniqueFd listener_;
  UniqueFd output_;  // the trainer's stdout and stderr
  std::map<int, Client> clients_;
  pid_t trainer_ = 0;
  bool suspended_ = false;
  bool killed_ = false;
  bool finished_ = false;
  int num_tries_ = 0;  // failed tries to write the exit file, other than for want of disk space
  OomKills oom_kills_;
  internal::ShimStatus end_;  // set once the trainer has ended
};

}  // namespace ampd::shim
