#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "ampd/internal/trainer.pb.h"
#include "base/io/file.h"
#include "base/ipc/process.h"
#include "gtest/gtest.h"
#include "worker/agent/trainers/spawn_folder.h"

namespace ampd::agent {

// A state folder with the spawn folders of trainers that an earlier agent left. The trainers do not really run.
// Thread-compatible.
class LeftTrainers {
 public:
  LeftTrainers() {
    std::string name = testing::TempDir() + "/ampd-trainers-XXXXXX";
    state_folder_ = mkdtemp(name.data());
  }
  ~LeftTrainers() { std::filesystem::remove_all(state_folder_); }
  LeftTrainers(const LeftTrainers&) = delete;

  const std::string& state_folder() const { return state_folder_; }
  std::string PathOf(const std::string& id) const { return state_folder_ + "/spawn/" + id; }

  // Adds a trainer on device "cpu" that runs the first attempt of `job`; with an empty `job`, adds a warm trainer,
  // which waits for a job. The record names this test's process as the shim (the process that starts and watches a
  // trainer), so the trainer counts as running.
  void Add(const std::string& id, const std::string& job = "") const {
    internal::SpawnRecord record;
    record.set_spawn_id(id);
    record.set_token(id);
    record.set_device("cpu");
    record.set_boot_id(BootId().value());
    const ProcessIdentity self = IdentityOf(getpid()).value();
    record.set_shim_pid(self.pid);
    record.set_shim_start_ticks(self.start_ticks);
    if (!job.empty()) {
      *record.mutable_key() = Key(job);
    }
    EXPECT_TRUE(SpawnFolder::Create(state_folder_, record).ok());
  }

  // Ends the trainer: writes the exit status that its shim would write if `signal` had killed the trainer, or, with the
  // signal 0, if the trainer had exited with `exit_code`.
  void End(const std::string& id, int signal, int exit_code = 0) const {
    internal::ShimStatus status;
    status.set_exited(true);
    status.set_signal(signal);
    status.set_exit_code(exit_code);
    EXPECT_TRUE(WriteFileAtomically(PathOf(id) + "/exit", status.SerializeAsString()).ok());
  }

  static v1::AttemptKey Key(const std::string& job) {
    v1::AttemptKey key;
    key.set_job_id(job);
    key.set_attempt(1);
    key.set_token("token-" + job);
    return key;
  }

 private:
  std::string state_folder_;
};

}  // namespace ampd::agent
