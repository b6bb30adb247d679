#include "server/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/random.h"
#include "base/version.h"
#include "server/ledger/memory_journal.h"
#include "server/ledger/sqlite_journal.h"
#include "tests/count_from_environment.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

std::string MakeFolder() {
  std::string pattern = testing::TempDir() + "/ledger_XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

std::unique_ptr<Ledger> OpenOn(std::shared_ptr<MemoryJournal::Disk> disk, int snapshot_every = 1000) {
  Ledger::Options options;
  options.journal = std::make_unique<MemoryJournal>(std::move(disk));
  options.snapshot_every = snapshot_every;
  auto ledger = Ledger::Open(std::move(options));
  EXPECT_TRUE(ledger.ok()) << ledger.status();
  return *std::move(ledger);
}

std::string Bytes(const Ledger& ledger) {
  return ledger.Read([](const ClusterState& state) { return state.ToSnapshot(0).SerializeAsString(); });
}

std::string Seen(const Ledger& ledger, const std::string& job) {
  return ledger.Read([&](const ClusterState& state) { return Show(state, job); });
}

// A journal whose appends can be made to fail. Each append can also run a callback, with which a test checks what
// readers see during the append.
class WatchedJournal final : public Journal {
 public:
  absl::StatusOr<Recovered> Recover() override { return Recovered(); }
  absl::Status Append(const JournalGroup& group) override {
    sizes.push_back(group.updates.size());
    if (on_append) {
      on_append();
    }
    return result;
  }
  absl::Status Compact(uint64_t, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<std::string>> FindArchived(const std::string&) override { return std::nullopt; }
  absl::StatusOr<std::vector<std::string>> FindArchivedNamed(const std::string&, int) override {
    return std::vector<std::string>();
  }
  absl::StatusOr<std::vector<std::string>> FindArchivedWithPrefix(const std::string&, int) override {
    return std::vector<std::string>();
  }
  absl::StatusOr<int64_t> CountArchived() override { return 0; }
  absl::StatusOr<std::vector<std::string>> ListArchived(int64_t, int) override { return std::vector<std::string>(); }
  absl::StatusOr<std::vector<std::string>> ListEnded(EndPosition, int64_t, int) override {
    return std::vector<std::string>();
  }
  bool HasRoomForSubmits() override { return true; }

  std::vector<size_t> sizes;
  std::function<void()> on_append;
  absl::Status result;
};

TEST(Ledger, NoReaderAndNoAnswer_BeforeTheAppendIsDone) {
  Ledger::Options options;
  auto owned = std::make_unique<WatchedJournal>();
  WatchedJournal& journal = *owned;
  options.journal = std::move(owned);
  auto ledger = *Ledger::Open(std::move(options));
  UpdateMaker make;
  bool answered = false;
  std::string seen_while_appending;
  journal.on_append = [&] {
    EXPECT_FALSE(answered);
    seen_while_appending = Seen(*ledger, "j1");
  };
  ledger->Commit(make.Create("j1"), [&](const absl::StatusOr<Applied>&) { answered = true; });
  EXPECT_TRUE(ledger->CommitGroup());
  EXPECT_EQ(seen_while_appending, "j1:none");
  EXPECT_TRUE(answered);
  EXPECT_EQ(Seen(*ledger, "j1"), "j1:QUEUED");
}

TEST(Ledger, Group_IsOneAppendAndItsUpdatesSeeEachOther) {
  Ledger::Options options;
  auto owned = std::make_unique<WatchedJournal>();
  WatchedJournal& journal = *owned;
  options.journal = std::move(owned);
  auto ledger = *Ledger::Open(std::move(options));
  UpdateMaker make;
  std::vector<std::string> jobs;
  const auto note = [&](const absl::StatusOr<Applied>& applied) {
    jobs.push_back(applied.ok() ? applied->job : ReasonOf(applied.status()));
  };
  ledger->Commit(make.Create("j1", "r1", "a"), note);
  ledger->Commit(make.Create("j2", "r1", "a"), note);
  ledger->Commit(make.Create("j3", "r1", "b"), note);
  ledger->Commit(make.Create("j4", "r4", "a"), note);
  EXPECT_TRUE(ledger->CommitGroup());
  EXPECT_EQ(jobs, (std::vector<std::string>{"j1", "j1", "REQUEST_ID_REUSED", "j4"}));
  EXPECT_EQ(journal.sizes, (std::vector<size_t>{2}));
}

TEST(LedgerDeathTest, FailedAppend_EndsTheProcess) {
  Ledger::Options options;
  auto owned = std::make_unique<WatchedJournal>();
  owned->result = absl::InternalError("the disk is gone");
  options.journal = std::move(owned);
  auto ledger = *Ledger::Open(std::move(options));
  UpdateMaker make;
  ledger->Commit(make.Create("j1"), [](const absl::StatusOr<Applied>&) {});
  EXPECT_DEATH(ledger->CommitGroup(), "the journal can't be written");
}

TEST(Ledger, FullQueue_RefusesWithADelay) {
  Ledger::Options options;
  options.journal = std::make_unique<MemoryJournal>(std::make_shared<MemoryJournal::Disk>());
  options.max_queue = 1;
  auto ledger = *Ledger::Open(std::move(options));
  UpdateMaker make;
  absl::Status second;
  ledger->Commit(make.Create("j1"), [](const absl::StatusOr<Applied>&) {});
  ledger->Commit(make.Create("j2"), [&](const absl::StatusOr<Applied>& applied) { second = applied.status(); });
  EXPECT_EQ(second.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayOf(second).has_value());
}

TEST(Ledger, Restart_GivesTheSameStateAndTellsTheSameEvents) {
  auto disk = std::make_shared<MemoryJournal::Disk>();
  std::vector<std::string> events, events_again;
  const auto listener = [](std::vector<std::string>* into) {
    return [into](const Publication& publication) {
      for (const Applied& applied : publication.applied) {
        for (const JobEvent& event : applied.events) {
          into->push_back(event.job + " " + event.event.ShortDebugString());
        }
      }
    };
  };
  UpdateMaker make;
  auto ledger = OpenOn(disk);
  ledger->SetListener(listener(&events));
  for (const auto& update : {make.Register("w1"), make.Create("j1"), make.Assign("j1", 1, "w1"),
                             make.Advance("j1", 1, v1::Attempt::RUNNING), make.Save("j1", 1, 4), make.Lose("w1")}) {
    ASSERT_TRUE(ledger->CommitAndWait(update).ok());
  }
  const std::string before = Bytes(*ledger);
  ledger = OpenOn(disk);
  ledger->SetListener(listener(&events_again));
  ledger->PublishReplayed();
  EXPECT_EQ(Bytes(*ledger), before);
  EXPECT_EQ(events_again, events);
  EXPECT_EQ(events.size(), 7u);
}

TEST(Ledger, Snapshot_BoundsReplay) {
  auto disk = std::make_shared<MemoryJournal::Disk>();
  UpdateMaker make;
  auto ledger = OpenOn(disk, /*snapshot_every=*/5);
  for (int i = 0; i < 23; ++i) {
    ASSERT_TRUE(ledger->CommitAndWait(make.Create(absl::StrCat("j", i), absl::StrCat("r", i))).ok());
  }
  const std::string before = Bytes(*ledger);
  EXPECT_EQ(MemoryJournal(disk).Recover()->updates.size(), 3u);
  ledger = OpenOn(disk);
  EXPECT_EQ(Bytes(*ledger), before);
  EXPECT_EQ(ledger->CommitAndWait(make.Create("again", "r7"))->job, "j7");
}

internal::Update StartLifeOf(const std::string& version, UpdateMaker& make) {
  internal::Update update = make.New();
  update.mutable_start_life()->set_server_version(version);
  return update;
}

absl::Status OpenErrorOn(std::shared_ptr<MemoryJournal::Disk> disk) {
  Ledger::Options options;
  options.journal = std::make_unique<MemoryJournal>(std::move(disk));
  return Ledger::Open(std::move(options)).status();
}

// A journal of another version of ampd must be compacted once, with the first update of this version.
TEST(Ledger, JournalOfAnotherVersion_IsCompactedAtTheFirstCommit) {
  for (const std::string version : {"", "0.1.7"}) {
    auto disk = std::make_shared<MemoryJournal::Disk>();
    UpdateMaker make;
    auto ledger = OpenOn(disk);
    ASSERT_TRUE(ledger->CommitAndWait(StartLifeOf(version, make)).ok());
    ASSERT_TRUE(ledger->CommitAndWait(make.Create("j1")).ok());
    ledger = OpenOn(disk);
    EXPECT_EQ(MemoryJournal(disk).Recover()->updates.size(), 2u);
    ASSERT_TRUE(ledger->CommitAndWait(StartLifeOf(Version(), make)).ok());
    EXPECT_EQ(MemoryJournal(disk).Recover()->updates.size(), 0u) << version;
    ASSERT_TRUE(ledger->CommitAndWait(make.Create("j2")).ok());
    ledger = OpenOn(disk);
    ASSERT_TRUE(ledger->CommitAndWait(StartLifeOf(Version(), make)).ok());
    EXPECT_EQ(MemoryJournal(disk).Recover()->updates.size(), 2u) << "that of the same version is not";
    EXPECT_EQ(Seen(*ledger, "j1"), "j1:QUEUED");
  }
}

TEST(Ledger, JournalOfTheNextMinorVersion_IsReadAndOfALaterOneIsRefused) {
  const MinorVersion own = *ParseVersion(Version());
  const std::string next = absl::StrCat(own.major, ".", own.minor + 1, ".4");
  const std::string later = absl::StrCat(own.major, ".", own.minor + 2, ".0");
  auto disk = std::make_shared<MemoryJournal::Disk>();
  UpdateMaker make;
  ASSERT_TRUE(OpenOn(disk)->CommitAndWait(StartLifeOf(next, make)).ok());
  ASSERT_TRUE(OpenOn(disk, /*snapshot_every=*/1)->CommitAndWait(StartLifeOf(Version(), make)).ok());
  EXPECT_EQ(OpenOn(disk)->Read([](const ClusterState& state) { return state.newest_server_version(); }), next);
  ASSERT_TRUE(OpenOn(disk, /*snapshot_every=*/100)->CommitAndWait(StartLifeOf(later, make)).ok());
  const absl::Status refused = OpenErrorOn(disk);
  EXPECT_EQ(ReasonOf(refused), "NEWER_SCHEMA");
  EXPECT_EQ(refused.message(), absl::StrCat("the journal was written by ampd ", later,
                                            ", more than one minor version newer, and this is ampd ", Version(),
                                            "; start ampd ", later, ", or restore a backup that this version made"));
}

TEST(Ledger, SnapshotOfALaterMinorVersion_IsRefused) {
  const MinorVersion own = *ParseVersion(Version());
  const std::string later = absl::StrCat(own.major, ".", own.minor + 2, ".0");
  auto disk = std::make_shared<MemoryJournal::Disk>();
  UpdateMaker make;
  ASSERT_TRUE(OpenOn(disk, /*snapshot_every=*/1)->CommitAndWait(StartLifeOf(later, make)).ok());
  EXPECT_EQ(MemoryJournal(disk).Recover()->updates.size(), 0u);
  EXPECT_EQ(ReasonOf(OpenErrorOn(disk)), "NEWER_SCHEMA");
}

TEST(Ledger, UpdateOfAnUnknownKind_IsRefusedAsNewer) {
  auto disk = std::make_shared<MemoryJournal::Disk>();
  UpdateMaker make;
  ASSERT_TRUE(OpenOn(disk)->CommitAndWait(make.Create("j1")).ok());
  internal::Update update = make.New();
  update.GetReflection()->MutableUnknownFields(&update)->AddLengthDelimited(1000, "");
  JournalGroup group;
  group.first_index = 2;
  group.updates = {update.SerializeAsString()};
  ASSERT_TRUE(MemoryJournal(disk).Append(group).ok());
  const absl::Status refused = OpenErrorOn(disk);
  EXPECT_EQ(ReasonOf(refused), "NEWER_SCHEMA");
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("an update (2) of a kind that only newer versions know"));
}

TEST(Ledger, Updates_AreKeptUntilTheirEventsAreDurable) {
  auto disk = std::make_shared<MemoryJournal::Disk>();
  bool durable = false;
  Ledger::Options options;
  options.journal = std::make_unique<MemoryJournal>(disk);
  options.snapshot_every = 32;
  options.flush_events = [&] { return durable; };
  auto ledger = *Ledger::Open(std::move(options));
  UpdateMaker make;
  const auto commit = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const size_t number = ledger->Read([](const ClusterState& state) { return state.jobs().size(); });
      ASSERT_TRUE(ledger->CommitAndWait(make.Create(absl::StrCat("j", number))).ok());
    }
  };
  commit(50);
  EXPECT_EQ(MemoryJournal(disk).Recover()->updates.size(), 50u) << "updates were dropped before their events were kept";
  durable = true;
  commit(2);
  EXPECT_LT(MemoryJournal(disk).Recover()->updates.size(), 3u);
}

TEST(Ledger, ArchivedJob_IsInTheHistoryTableAndNoLongerHot) {
  auto disk = std::make_shared<MemoryJournal::Disk>();
  UpdateMaker make;
  auto ledger = OpenOn(disk);
  ASSERT_TRUE(ledger->CommitAndWait(make.Create("j1", "r1")).ok());
  internal::Update archive = make.New();
  archive.mutable_archive_jobs()->add_jobs("j1");
  EXPECT_FALSE(ledger->CommitAndWait(archive).ok()) << "a live job was archived";
  ASSERT_TRUE(ledger->CommitAndWait(make.Desire("j1", v1::Job::CANCEL)).ok());
  ASSERT_TRUE(ledger->CommitAndWait(archive).ok());
  EXPECT_EQ(Seen(*ledger, "j1"), "j1:none");
  EXPECT_TRUE(ledger->history().FindArchived("j1")->has_value());
  EXPECT_EQ(ledger->CommitAndWait(make.Create("j2", "r1"))->job, "j1") << "the request was forgotten";
}

TEST(Ledger, CheckpointOfAJobThatTheSameGroupArchives_IsDropped) {
  auto disk = std::make_shared<MemoryJournal::Disk>();
  UpdateMaker make;
  auto ledger = OpenOn(disk);
  for (const auto& update :
       {make.Register("w1"), make.Create("j1"), make.Assign("j1", 1, "w1"), make.Save("j1", 1, 4),
        make.Save("j1", 1, 6), make.End("j1", 1, v1::Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY)}) {
    ASSERT_TRUE(ledger->CommitAndWait(update).ok());
  }
  internal::Update archive = make.New(), drop = make.New();
  archive.mutable_archive_jobs()->add_jobs("j1");
  drop.mutable_drop_checkpoint()->set_job("j1");
  drop.mutable_drop_checkpoint()->set_attempt(1);
  drop.mutable_drop_checkpoint()->set_step(4);
  const auto expect_ok = [](const absl::StatusOr<Applied>& applied) { EXPECT_TRUE(applied.ok()) << applied.status(); };
  ledger->Commit(archive, expect_ok);
  ledger->Commit(drop, expect_ok);
  EXPECT_TRUE(ledger->CommitGroup());
  internal::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(**ledger->history().FindArchived("j1")));
  ASSERT_EQ(record.job().checkpoints_size(), 1);
  EXPECT_EQ(record.job().checkpoints(0).step(), 6);
  const std::string before = Bytes(*ledger);
  EXPECT_EQ(Bytes(*OpenOn(disk)), before);
}

// Commits jobs in an endless loop. Writes the id of each job to `out` once the job is acknowledged.
[[noreturn]] void CommitUntilKilled(const std::string& folder, const std::string& prefix, int out) {
  SqliteJournal::Options journal;
  journal.data_dir = folder;
  journal.min_free_bytes = 0;
  journal.reserve_bytes = 0;
  Ledger::Options options;
  options.journal = *SqliteJournal::Open(journal);
  options.snapshot_every = 40;  // Small, so that kills also hit compactions.
  auto ledger = *Ledger::Open(std::move(options));
  ledger->Start();
  UpdateMaker make;
  for (int i = 0;; ++i) {
    const std::string id = absl::StrCat(prefix, "-", i);
    ledger->Commit(make.Create(id, id), [out, id](const absl::StatusOr<Applied>& applied) {
      if (applied.ok()) {
        (void)WriteAll(out, id + "\n");
      }
    });
    if (i % 16 == 15) {
      (void)ledger->CommitAndWait(make.Create(id + "w"));
    }
  }
}

// Starts a child that commits jobs. Reads the ids of acknowledged jobs until at least `num_bytes` have arrived, then
// kills the child. Returns all ids that were read, one per line.
std::string RunAndKill(const std::string& folder, const std::string& prefix, size_t num_bytes) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    CommitUntilKilled(folder, prefix, pipe_ends[1]);
  }
  close(pipe_ends[1]);
  const UniqueFd in(pipe_ends[0]);
  std::string text;
  char buffer[4096];
  bool killed = false;
  for (ssize_t count = 0; (count = read(in.get(), buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, count);
    if (!killed && text.size() >= num_bytes) {
      kill(child, SIGKILL);
      killed = true;
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(killed && WIFSIGNALED(status)) << "the child ended by itself";
  return text.substr(0, text.rfind('\n') + 1);
}

// Starts and kills `kills` children, one after the other. All use the journal in one new folder. Checks that the
// journal then contains each acknowledged job exactly once.
void KillAndCheck(int64_t kills, SeededRandom& random) {
  const std::string folder = MakeFolder();
  std::set<std::string> acknowledged;
  for (int64_t i = 0; i < kills; ++i) {
    const std::string text = RunAndKill(folder, absl::StrCat("k", i), 1 + random.Next() % 700);
    for (const absl::string_view id : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      EXPECT_TRUE(acknowledged.insert(std::string(id)).second);
    }
  }
  SqliteJournal::Options journal;
  journal.data_dir = folder;
  journal.min_free_bytes = 0;
  Ledger::Options options;
  options.journal = *SqliteJournal::Open(journal);
  const auto ledger = Ledger::Open(std::move(options));
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_GT(acknowledged.size(), static_cast<size_t>(kills));
  (*ledger)->Read([&](const ClusterState& state) {
    for (const std::string& id : acknowledged) {
      EXPECT_NE(state.FindJob(id), nullptr) << id << " was acknowledged and is lost";
    }
    for (const auto& [order, record] : state.jobs()) {
      EXPECT_EQ(state.FindJob(record->job().id()), record) << "two jobs have one id";
    }
  });
}

// The test uses a new journal after every 200 kills. Each child reads everything that the earlier children wrote, so
// the time grows with the square of the number of kills on one journal.
TEST(LedgerKill, EveryAcknowledgedJobIsThereExactlyOnce) {
  SeededRandom random(1);
  for (int64_t left = CountFromEnvironment("AMPD_KILLS", 200); left > 0 && !HasFatalFailure(); left -= 200) {
    KillAndCheck(std::min<int64_t>(left, 200), random);
  }
}

}  // namespace
}  // namespace ampd::server
