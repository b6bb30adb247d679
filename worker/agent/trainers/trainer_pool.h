#pragma once

#include <poll.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "base/ipc/child_reaper.h"
#include "base/random.h"
#include "worker/agent/trainers/spawned_trainer.h"

namespace ampd::agent {

// The trainers of this host, each below its shim. TrainerPool starts them, finds those that an earlier agent left,
// keeps one warm trainer (started, but without an attempt) ready on each free device, assigns trainers to attempts, and
// removes the folders of those that have exited. Its owner polls the trainers and exchanges messages with them.
//
//   Assign --> binds a warm trainer of the device to the attempt; starts a trainer if there is none
//   Remove --> forgets a trainer that has exited, and deletes its folder
//
// If a trainer can't be started, can't use its device, or ends before it is ready, MarkUnusable reports the device as
// unhealthy until a later trainer can use it. Once a minute KeepWarm starts a warm trainer to test that, even if no
// trainers are kept warm. A warm trainer that can't use its device is ended. A trainer that runs an attempt is not: it
// reports by itself that the attempt failed. Times are since boot. Single-threaded; owner: the agent's loop.
class TrainerPool {
 public:
  using Trainers = std::map<std::string, std::unique_ptr<SpawnedTrainer>>;  // trainers by spawn id

  struct Options {
    std::string state_folder;
    SpawnedTrainer::Command command;
    bool warm = true;
    std::function<void(const std::string&)> log;  // takes one line
    std::function<void()> on_start;               // called after a trainer was started
    std::function<void()> on_device_change;       // called when a device becomes unusable or usable again
    RandomSource* random = nullptr;
  };
  explicit TrainerPool(Options options) : options_(std::move(options)) {}

  // Finds the trainers that an earlier agent left, running or not. Call once, before any other function.
  void Adopt();

  // Returns a trainer on the device, after binding it to the attempt. The pool owns the trainer. `traceparent`: the
  // attempt's trace; empty: none. Returns the errors of SpawnedTrainer::Start and Bind. After an error other than a
  // full disk, the device counts as unusable.
  absl::StatusOr<SpawnedTrainer*> Assign(const std::string& device, const v1::AttemptKey& key, absl::Duration now,
                                         const std::string& traceparent = "");

  // Returns null if there is no such trainer.
  SpawnedTrainer* Find(const std::string& spawn_id) const;
  const Trainers& trainers() const { return trainers_; }
  bool empty() const { return trainers_.empty(); }

  // Handles the first message of a trainer, which says whether the trainer can use its device.
  void OnHello(SpawnedTrainer& trainer, const internal::Hello& hello, absl::Duration now);
  // Handles the exit of a trainer. If the trainer ended before it was ready, returns why (SpawnedTrainer::WhyNotReady),
  // and the device counts as unusable.
  std::string OnExit(const SpawnedTrainer& trainer, absl::Duration now);
  // Handles the exit of a warm trainer, and ends a warm trainer that sends reports that can't be parsed.
  void CheckWarm(SpawnedTrainer& trainer, absl::Duration now);
  // Marks devices as unhealthy if their newest trainers could not use them.
  void MarkUnusable(std::vector<v1::Device>* devices) const;

  // Starts warm trainers on devices without a trainer. Pauses between two starts on the same device.
  void KeepWarm(const std::vector<v1::Device>& devices, absl::Duration now);
  // Lets KeepWarm start a warm trainer on the device without a pause, unless the device is unusable. Called after a
  // trainer on the device has ended its attempt.
  void AllowWarm(const std::string& device);

  void Remove(const std::string& spawn_id);
  // Removes the trainers that have exited, except those for which `is_used` returns true.
  void RemoveExited(const std::function<bool(const SpawnedTrainer&)>& is_used);
  void KillAll();
  void KillWarm();
  // Whether there is a warm trainer that has not exited.
  bool HasWarm() const;
  // Reaps the shims that have ended.
  void Reap();

  // Returns the descriptors to poll, for exits of shims and for messages of shims and trainers. Leaves out the
  // connections to trainers for which `is_blocked` returns true.
  std::vector<pollfd> Descriptors(const std::function<bool(const SpawnedTrainer&)>& is_blocked) const;
  // Whether all trainers and shims are connected. If not, the caller must also wake at intervals, because a missing
  // connection has no descriptor to poll.
  bool IsConnected() const;

 private:
  // Starts a trainer. `record` contains the device and, unless the trainer is a warm one, the attempt.
  absl::StatusOr<SpawnedTrainer*> Start(internal::SpawnRecord record);
  // Records that the device is unusable, because no trainer can be started on it. Does nothing if the reason is a full
  // disk: an attempt then ends with DISK_FULL, which tells the user what to do.
  void OnStartFailed(const std::string& device, const absl::Status& status, absl::Duration now);
  // Records whether the device can be used. `error`: why not; empty: it can.
  void SetDeviceError(const std::string& device, const std::string& error, absl::Duration now);
  bool IsUnusable(const std::string& device) const;

  const Options options_;
  Trainers trainers_;
  ChildReaper shims_;                                      // shims that this agent started and that have not ended
  std::map<std::string, absl::Duration> warm_not_before_;  // earliest start of a warm trainer, by device
  std::map<std::string, std::string> device_errors_;       // error of the newest trainer, by device; empty: none
};

}  // namespace ampd::agent
