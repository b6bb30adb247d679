// Tests a server that was restored from a backup (RestoreServer in journal.proto). Its workers followed the old server
// for some time after the backup was made, so they know more than the backup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

constexpr absl::Duration kLeaseAndMargin = absl::Seconds(15);

class RestoreTest : public CoordinatorTest {
 protected:
  std::shared_ptr<MemoryJournal::Disk> Backup() {
    auto copy = std::make_shared<MemoryJournal::Disk>();
    const auto recovered = MemoryJournal(disk).Recover();
    JournalGroup group;
    group.first_index = 1;
    group.updates = recovered->updates;
    EXPECT_TRUE(MemoryJournal(copy).Append(group).ok());
    return copy;
  }

  // Starts a server that was restored from the backup.
  void Restore(const std::shared_ptr<MemoryJournal::Disk>& backup, uint64_t epoch = 7) {
    coordinator.reset();
    ledger.reset();
    disk = backup;
    Ledger::Options options;
    options.journal = std::make_unique<MemoryJournal>(disk);
    const auto restored = *Ledger::Open(std::move(options));
    internal::Update update;
    update.set_time_unix_micros(absl::ToUnixMicros(clock.Now()));
    update.mutable_restore_server()->set_epoch(epoch);
    update.mutable_restore_server()->set_attempt_gap(1000);
    update.mutable_restore_server()->set_message("the server was restored");
    ASSERT_TRUE(restored->CommitAndWait(update).ok());
    StartServer();
  }

  v1::WorkerDirective Leave(ScriptedWorker& worker, const v1::AttemptKey& key) {
    *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::LEFT, v1::Reason::PREEMPTED);
    Exchange(worker);
    worker.report.clear_attempts();
    return Exchange(worker);
  }
};

TEST_F(RestoreTest, AttemptThatStillRuns_SavesACheckpointAndContinuesUnderAHigherNumber) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  const auto backup = Backup();
  Pass(absl::Hours(1));
  Restore(backup);
  v1::WorkerDirective directive = Exchange(worker);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().token(), key.token());
  EXPECT_EQ(directive.attempts(0).desired(), Job::PAUSE);
  EXPECT_EQ(directive.attempts(0).desired_reason(), v1::Reason::PREEMPTED);
  EXPECT_EQ((*coordinator->queries().GetJob(id))->message(), "the server was restored");
  EXPECT_TRUE(coordinator->queries().FindAttempt(key)->has_gap);
  *worker.Has(key, Attempt::RUNNING).add_checkpoints() = CheckpointAt(id, 1, 700);
  Exchange(worker);
  Leave(worker, key);
  Pass(kLeaseAndMargin);
  directive = Exchange(worker);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().attempt(), 1001);
  EXPECT_EQ(directive.attempts(0).start_from().step(), 700);
  EXPECT_FALSE(coordinator->queries().FindAttempt(directive.attempts(0).key())->has_gap);
  EXPECT_EQ(Shown(id), "STARTING@w1#1001 ckpt=700");
}

TEST_F(RestoreTest, AttemptSinceTheBackup_IsEndedAndItsNumberIsNotUsedAgain) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey first = StartOn(worker, id);
  const auto backup = Backup();
  *worker.Has(first, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::GONE, v1::Reason::WORKER_LOST);
  const v1::AttemptKey second = Exchange(worker).attempts(0).key();
  ASSERT_EQ(second.attempt(), 2);
  worker.Has(second, Attempt::RUNNING);
  Exchange(worker);
  Restore(backup);
  v1::WorkerDirective directive = Exchange(worker);
  ASSERT_EQ(directive.attempts_size(), 1) << "the attempt that the backup does not know must end";
  EXPECT_EQ(directive.attempts(0).key().attempt(), 1);
  EXPECT_EQ(directive.attempts(0).desired(), Job::PAUSE) << "an attempt that is over must not start again";
  EXPECT_FALSE(coordinator->queries().FindAttempt(second).ok());
  Leave(worker, first);
  Pass(kLeaseAndMargin);
  EXPECT_EQ(Exchange(worker).attempts(0).key().attempt(), 1001);
}

TEST_F(RestoreTest, FirstAttemptOfAJobThatWaited_HasAHigherNumberToo) {
  const std::string id = CreateId();
  const auto backup = Backup();
  Restore(backup);
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(14));
  EXPECT_EQ(Shown(id), "QUEUED") << "its worker may still run an attempt under the lease of the old server";
  Exchange(worker);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Shown(id), "STARTING@w1#1001");
}

TEST_F(RestoreTest, SecondLife_PlacesJobsAtOnce) {
  const std::string id = CreateId();
  Restore(Backup());
  StartServer();
  ScriptedWorker worker("w1");
  Exchange(worker);
  EXPECT_EQ(Shown(id), "STARTING@w1#1001");
}

TEST_F(RestoreTest, WorkerThatDoesNotCome_IsLostAndItsJobIsGivenToAnother) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  StartOn(worker, id);
  Restore(Backup());
  ScriptedWorker other("w2");
  Exchange(other);
  Pass(absl::Seconds(14));
  EXPECT_EQ(Shown(id), "PAUSING@w1#1 PREEMPTED");
  Exchange(other);
  Pass(absl::Seconds(2));
  EXPECT_EQ(Shown(id), "STARTING@w2#1001");
}

TEST_F(RestoreTest, JobsThatEnded_StayAsTheyWere) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  Exchange(worker);
  const std::string before = (*coordinator->queries().GetJob(id))->SerializeAsString();
  Restore(Backup());
  EXPECT_EQ((*coordinator->queries().GetJob(id))->SerializeAsString(), before);
}

TEST_F(RestoreTest, OldServer_RefusesWorkersThatFollowTheRestoredOne) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  const auto old_disk = disk;
  Restore(Backup());
  EXPECT_EQ(Exchange(worker).id().epoch(), 7u);
  coordinator.reset();
  ledger.reset();
  disk = old_disk;
  StartServer();
  worker.report.set_sequence(worker.report.sequence() + 1);
  const absl::Status refused = coordinator->sessions().HandleReport(worker.report).status();
  EXPECT_EQ(ReasonOf(refused), "SERVER_SUPERSEDED") << refused;
  ASSERT_FALSE(troubles.empty());
  EXPECT_THAT(troubles.back(), HasSubstr("stop this server"));
}

TEST_F(RestoreTest, EpochThatIsNotHigher_IsRefused) {
  Restore(Backup());
  internal::Update update;
  update.mutable_restore_server()->set_epoch(7);
  EXPECT_EQ(ReasonOf(ledger->CommitAndWait(update).status()), "STALE_EPOCH");
}

TEST_F(RestoreTest, SecondRestore_ContinuesTheNumbersAboveTheFirst) {
  const std::string id = CreateId();
  Restore(Backup());
  Restore(Backup(), /*epoch=*/8);
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(kLeaseAndMargin);
  Exchange(worker);
  Pump();
  EXPECT_EQ(Shown(id), "STARTING@w1#2001");
}

}  // namespace
}  // namespace ampd::server
