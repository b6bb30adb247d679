// Tests that run the training loop in this process, with file operations that wait or fail when the test asks for it.
#include "worker/train/loop/training_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/ipc/compute_lease.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

// File operations that follow a script. If `holds`, the weights of step 7 are written only after Release is called.
// Writing files of step `fails_at` fails, as on a full disk. For the steps in `damages`, the weights file is emptied
// once the checkpoint is complete.
class ScriptedIo final : public CheckpointIo {
 public:
  bool holds = false;
  int64_t fails_at = 0;
  std::set<int64_t> damages;

  absl::Status Rename(const std::string& from, const std::string& to) override {
    const absl::Status renamed = CheckpointIo::Rename(from, to);
    for (const int64_t step : damages) {
      if (to.ends_with(absl::StrCat("/step-", step))) {
        std::filesystem::resize_file(to + "/model.safetensors", 0);
      }
    }
    return renamed;
  }

  absl::Status WriteFile(const std::string& path, const std::vector<std::string_view>& parts) override {
    if (holds && path.find("/.step-7.tmp/model.safetensors") != path.npos) {
      begun_.Notify();
      released_.WaitForNotification();
    }
    return fails_at > 0 && path.find(absl::StrCat("/.step-", fails_at, ".tmp/")) != path.npos
               ? ErrnoError(ENOSPC, "write")
               : CheckpointIo::WriteFile(path, parts);
  }
  void AwaitBegin() { begun_.WaitForNotification(); }
  void Release() { released_.Notify(); }

 private:
  absl::Notification begun_;
  absl::Notification released_;
};

class TrainingLoopTest : public TrainerTest {
 protected:
  // A training loop for the attempt `start`, with everything that the loop needs. No agent ever connects.
  struct Attempt {
    Attempt(const StartAttempt& to_start, const std::string& folder, CheckpointIo& io)
        : start(to_start),
          outbox({.spill_path = folder + "-telemetry"}),
          link(folder, outbox),
          store(start.checkpoint_root(), io),
          scratch_folder(folder) {
      outbox.SetListener([this] {
        absl::MutexLock lock(&mutex);
        num_records = outbox.last_sequence();
      });
      loop = std::make_unique<TrainingLoop>(
          PlanAttempt(start).value(),
          TrainingLoop::Context{start, link, outbox, store, step_log, lease, scratch_folder});
    }
    // Waits until the run has done `step` steps. REQUIRES: every telemetry record of the run is a step.
    void AwaitStep(uint64_t step) {
      absl::MutexLock lock(&mutex);
      const auto is_there = [this, step]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return num_records >= step; };
      EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&is_there), absl::Minutes(1))) << num_records;
    }
    bool HasStepWithin(absl::Duration wait) {
      absl::MutexLock lock(&mutex);
      const auto is_there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return num_records > 0; };
      return mutex.AwaitWithTimeout(absl::Condition(&is_there), wait);
    }

    const StartAttempt start;
    TelemetryOutbox outbox;
    AgentLink link;
    CheckpointStore store;
    const std::string scratch_folder;
    StepLog step_log;
    ComputeLease lease;
    absl::Mutex mutex;
    uint64_t num_records ABSL_GUARDED_BY(mutex) = 0;
    std::unique_ptr<TrainingLoop> loop;
  };

  // Returns the names of all folders of checkpoints, including those of incomplete ones.
  std::vector<std::string> Folders() const {
    std::vector<std::string> names;
    const std::filesystem::path attempt = root_ / "checkpoints/j-abc/1";
    for (const auto& entry : std::filesystem::directory_iterator(attempt)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  ScriptedIo io_;
};

TEST_F(TrainingLoopTest, TrainingGoesOnWhileACheckpointIsWrittenUpToTheNextOne) {
  StartAttempt start = Mlp("bf16", 30);
  start.mutable_key()->set_attempt(2);
  Attempt undisturbed(start, Folder(), io_);
  ASSERT_TRUE(undisturbed.loop->Run().ok());
  start.mutable_key()->set_attempt(1);
  io_.holds = true;
  Attempt held(start, Folder(), io_);
  absl::StatusOr<Outcome> outcome;
  std::thread training([&] { outcome = held.loop->Run(); });
  io_.AwaitBegin();
  held.AwaitStep(14);
  EXPECT_EQ(Folders(), std::vector<std::string>({".step-7.tmp"}));
  EXPECT_EQ(held.outbox.last_sequence(), 14u) << "the second checkpoint did not wait for the first";
  io_.Release();
  training.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(Folders(), std::vector<std::string>({"step-14", "step-21", "step-28", "step-30", "step-7"}));
  // The checkpoint of step 7 must have the state of step 7, although training continued while it was written. So its
  // hash must equal that of the undisturbed run.
  const auto hash_of = [&](int attempt) {
    const std::string path = absl::StrCat("j-abc/", attempt, "/step-7");
    const auto manifest = ReadFile(absl::StrCat(start.checkpoint_root(), "/", path, "/state.json"), 1 << 20);
    const auto loaded = held.store.Load(path, Sha256Hex(manifest.value()));
    return loaded.ok() ? loaded->state_hash : loaded.status().ToString();
  };
  EXPECT_EQ(hash_of(1), hash_of(2));
  EXPECT_EQ(held.loop->metrics().state_hash(), undisturbed.loop->metrics().state_hash());
  EXPECT_EQ(held.loop->metrics().state_hash().size(), 64u);
}

TEST_F(TrainingLoopTest, WithoutALease_NoStepBegins) {
  Attempt attempt(Mlp("fp32", 5), Folder(), io_);
  attempt.lease = ComputeLease::Create().value();
  absl::StatusOr<Outcome> outcome;
  std::thread training([&] { outcome = attempt.loop->Run(); });
  // The lease expires at this moment, so no step may begin. A step of this model takes less than a millisecond.
  attempt.lease.Extend(SystemClock().SinceBoot());
  EXPECT_FALSE(attempt.HasStepWithin(absl::Milliseconds(200)));
  attempt.lease.Extend(SystemClock().SinceBoot() + absl::Hours(1));
  training.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(attempt.loop->step(), 5);
}

TEST_F(TrainingLoopTest, AWriteThatFails_EndsTheRunAtOneOfTheNextStepsAndTheOneBeforeStays) {
  io_.fails_at = 14;
  Attempt attempt(Mlp("fp32", 1000), Folder(), io_);
  const auto outcome = attempt.loop->Run();
  EXPECT_EQ(ReasonOf(outcome.status()), "DISK_FULL") << outcome.status();
  EXPECT_EQ(outcome.status().message().substr(0, 50), "the checkpoint of step 14 can't be written: No spa");
  EXPECT_GE(attempt.loop->step(), 14);
  EXPECT_LE(attempt.loop->step(), 21) << "it went on behind the next checkpoint";
  EXPECT_EQ(Folders(), std::vector<std::string>({"step-7"}));
}

TEST_F(TrainingLoopTest, TheLastWrite_FailsTheRun) {
  io_.fails_at = 30;
  Attempt attempt(Mlp("fp32", 30), Folder(), io_);
  EXPECT_EQ(ReasonOf(attempt.loop->Run().status()), "DISK_FULL");
  EXPECT_EQ(attempt.loop->metrics().state_hash(), "") << "of a checkpoint that there is not";
}

TEST_F(TrainingLoopTest, ARunThatIsCancelled_LeavesTheCheckpointThatItWasWriting) {
  io_.holds = true;
  Attempt attempt(Mlp("fp32", 1 << 30), Folder(), io_);
  absl::StatusOr<Outcome> outcome;
  std::thread training([&] { outcome = attempt.loop->Run(); });
  io_.AwaitBegin();
  internal::LeaveAttempt leave;
  leave.set_desired(v1::Job::CANCEL);
  leave.set_reason(v1::Reason::USER_CANCELLED);
  attempt.link.Stop(leave);
  std::thread waiting([&] {
    training.join();
    attempt.loop->AwaitCheckpoint();
  });
  io_.Release();
  waiting.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind(), Outcome::LEFT);
  EXPECT_EQ(Folders().back(), "step-7");
}

// Runs of twelve steps with a checkpoint after every second one. The loss of the ninth batch is not finite, so the run
// rolls back.
class RollBackOverDamageTest : public TrainingLoopTest {
 protected:
  StartAttempt ToDiverge(int attempt = 1) {
    StartAttempt start = Mlp("fp16", 12, attempt);
    UseIdx(start, 8 * 20, /*bright=*/8 * 8 + 3);
    start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_off();
    start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
    start.mutable_spec()->mutable_checkpoint()->set_every_steps(2);
    start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK);
    return start;
  }
  // Returns the events of one kind in a run's outbox.
  static std::vector<v1::Event> EventsIn(const TelemetryOutbox& outbox, v1::Event::Kind kind) {
    const auto batch = outbox.Read(0, 1 << 20);
    std::vector<v1::Event> events;
    for (const v1::Event& event : batch.value().events()) {
      if (event.kind() == kind) {
        events.push_back(event);
      }
    }
    return events;
  }
  static v1::Checkpoint Recorded(const StartAttempt& start, const std::string& path) {
    const auto manifest = ReadFile(absl::StrCat(start.checkpoint_root(), "/", path, "/state.json"), 1 << 20);
    v1::Checkpoint checkpoint;
    checkpoint.set_path(path);
    checkpoint.set_manifest_sha256(Sha256Hex(manifest.value()));
    return checkpoint;
  }
};

TEST_F(RollBackOverDamageTest, TheNewestSoundCheckpointIsLoadedAndTheDamageReported) {
  io_.damages = {8, 6};
  Attempt attempt(ToDiverge(), Folder(), io_);
  const auto outcome = attempt.loop->Run();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind(), Outcome::FINISHED);
  const auto damaged = EventsIn(attempt.outbox, v1::Event::CHECKPOINT_DAMAGED);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(
      damaged[0].message(),
      "j-abc/1/step-8/model.safetensors is missing or not the one that was recorded; the job rolls back to the older "
      "checkpoint j-abc/1/step-4");
  EXPECT_EQ(damaged[0].attributes().at("damaged"), "j-abc/1/step-8");
  EXPECT_EQ(damaged[0].attributes().at("taken"), "j-abc/1/step-4");
  EXPECT_EQ(StepsOf(EventsIn(attempt.outbox, v1::Event::ROLLED_BACK)), std::vector<int64_t>({4}));
}

TEST_F(RollBackOverDamageTest, WithoutASoundOneTheJobStartsOver) {
  io_.damages = {2, 4, 6, 8};
  Attempt attempt(ToDiverge(), Folder(), io_);
  const auto outcome = attempt.loop->Run();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind(), Outcome::FINISHED);
  const auto damaged = EventsIn(attempt.outbox, v1::Event::CHECKPOINT_DAMAGED);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_TRUE(damaged[0].message().ends_with("rolls back to the start of the job")) << damaged[0].message();
  EXPECT_EQ(StepsOf(EventsIn(attempt.outbox, v1::Event::ROLLED_BACK)), std::vector<int64_t>({0}));
}

TEST_F(RollBackOverDamageTest, AResumedAttemptGoesBackBeyondItsOwnCheckpoints) {
  StartAttempt first = ToDiverge();
  first.mutable_spec()->mutable_train()->set_steps(6);
  Attempt before(first, Folder(), io_);
  ASSERT_TRUE(before.loop->Run().ok());
  StartAttempt start = ToDiverge(2);
  *start.mutable_start_from() = Recorded(start, "j-abc/1/step-6");
  *start.add_older_checkpoints() = Recorded(start, "j-abc/1/step-4");
  io_.damages = {8};
  Attempt attempt(start, Folder(), io_);
  const auto outcome = attempt.loop->Run();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(StepsOf(EventsIn(attempt.outbox, v1::Event::ROLLED_BACK)), std::vector<int64_t>({6}));
  EXPECT_EQ(EventsIn(attempt.outbox, v1::Event::CHECKPOINT_DAMAGED).size(), 1u);
}

// A run that may roll back must not save a checkpoint during a spike of its loss, because the next roll-back would
// return to it.
TEST_F(TrainingLoopTest, ARunThatIsPausedWhileItsLossSpikes_LeavesNoCheckpointWhereItMayRollBack) {
  Attempt whole(Mlp("fp32", 7), Folder(), io_);
  ASSERT_TRUE(whole.loop->Run().ok());
  const std::string path = "j-abc/1/step-7";
  const auto manifest = ReadFile(absl::StrCat(whole.start.checkpoint_root(), "/", path, "/state.json"), 1 << 20);
  auto loaded = whole.store.Load(path, Sha256Hex(manifest.value()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  auto state = StateOf(*loaded);
  ASSERT_TRUE(state.ok()) << state.status();
  for (const bool spikes : {false, true}) {
    for (const bool may_roll_back : {false, true}) {
      const std::string job = absl::StrCat("j-paused-", spikes, may_roll_back);
      CheckpointContent content;
      content.job_id = job;
      content.attempt = 1;
      state->monitor.num_spiking = spikes ? 1 : 0;
      const auto saved = SaveState(*state, content, whole.store);
      ASSERT_TRUE(saved.ok()) << saved.status();
      v1::Checkpoint checkpoint;
      checkpoint.set_path(saved->path);
      checkpoint.set_manifest_sha256(saved->manifest_sha256);
      StartAttempt start = Resumed(Mlp("fp32", 1000), checkpoint);
      start.mutable_key()->set_job_id(job);
      start.mutable_spec()->set_on_divergence(may_roll_back ? v1::JobSpec::ROLL_BACK : v1::JobSpec::FAIL);
      Attempt paused(start, Folder(), io_);
      internal::LeaveAttempt leave;
      leave.set_desired(v1::Job::PAUSE);
      leave.set_reason(v1::Reason::USER_PAUSED);
      paused.link.Stop(leave);
      const auto outcome = paused.loop->Run();
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_EQ(outcome->kind(), Outcome::LEFT);
      EXPECT_EQ(std::filesystem::exists(root_ / "checkpoints" / job / "2/step-7"), !(spikes && may_roll_back)) << job;
    }
  }
}

}  // namespace
}  // namespace ampd::train
