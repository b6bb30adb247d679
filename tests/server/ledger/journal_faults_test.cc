// Makes each disk call of the journal fail in turn. In one run only that call fails, in another run that call and all
// later calls. Each run ends with a simulated power cut.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/random.h"
#include "server/ledger/ledger.h"
#include "server/ledger/sqlite_journal.h"
#include "tests/base/faulty_vfs.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;

constexpr int kSomeSeeds = 3;

// A folder that is deleted with its content. It is in memory if possible, because the test creates thousands of such
// folders. FaultyVfs decides what survives a power cut, so a real disk is not needed.
class ShortLivedFolder {
 public:
  ShortLivedFolder()
      : path_(std::string(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : testing::TempDir()) + "/faults_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~ShortLivedFolder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

SqliteJournal::Options OptionsFor(const std::string& folder) {
  SqliteJournal::Options options;
  options.data_dir = folder;
  options.min_free_bytes = 0;
  options.reserve_bytes = 4096;
  return options;
}

// The content of a journal. It does not show whether an update is in the snapshot or comes after it.
struct Holding {
  std::vector<std::string> updates;
  std::map<std::string, std::string> history;
  friend bool operator==(const Holding&, const Holding&) = default;
};

// Returns the group that a Story appends as number `n`. The group has n % 3 + 1 updates and archives one job. Every
// third group also deletes a job.
JournalGroup GroupNumber(int n, uint64_t first_index) {
  JournalGroup group;
  group.first_index = first_index;
  for (int i = 0; i <= n % 3; ++i) {
    // Some updates are longer than a page, so that a group takes many writes.
    group.updates.push_back(absl::StrCat("group ", n, " update ", i, std::string(n % 2 == 0 ? 6000 : 10, 'x')));
  }
  group.archived.push_back({absl::StrCat("j", n), "", n, int64_t{10} * n, absl::StrCat("record ", n)});
  if (n % 3 == 0) {
    group.deleted.push_back(absl::StrCat("j", n - 2));
  }
  return group;
}

Holding HoldingAfter(int num_groups) {
  Holding holding;
  for (int n = 1; n <= num_groups; ++n) {
    const JournalGroup group = GroupNumber(n, 0);
    holding.updates.insert(holding.updates.end(), group.updates.begin(), group.updates.end());
    for (const ArchivedJob& job : group.archived) {
      holding.history[job.id] = job.record;
    }
    for (const std::string& id : group.deleted) {
      holding.history.erase(id);
    }
  }
  return holding;
}

std::string SnapshotOf(size_t num_updates) { return absl::StrCat("state after ", num_updates, std::string(5000, 's')); }

// Uses a journal in the way a server does. Each step is one letter:
//
//   o  open and recover    a  append the next group    c  compact    f  read the history table    q  close
//
// Like a server, the story ends at the first error of a call that writes.
class Story {
 public:
  explicit Story(const std::string& folder) : folder_(folder) {}

  // Plays the steps. Returns the status with which the story ended.
  absl::Status Run(const std::string& steps) {
    for (const char step : steps) {
      absl::Status status;
      if (step == 'o') {
        status = Open();
      } else if (step == 'a') {
        status = Append();
      } else if (step == 'c') {
        status = journal_->Compact(num_updates(), SnapshotOf(num_updates()));
        status = absl::IsResourceExhausted(status) ? absl::OkStatus() : status;  // A ledger would retry later.
      } else if (step == 'f') {
        LookIntoHistory();
      } else {
        journal_.reset();
      }
      if (!status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  // Continues the story `before`. REQUIRES: this story's folder is a copy of the folder of `before`.
  void GoOnFrom(const Story& before) { num_acknowledged_ = before.num_acknowledged_; }

  int num_acknowledged() const { return num_acknowledged_; }
  bool in_flight() const { return in_flight_; }

 private:
  uint64_t num_updates() const { return HoldingAfter(num_acknowledged_).updates.size(); }

  absl::Status Open() {
    absl::StatusOr<std::unique_ptr<SqliteJournal>> opened = SqliteJournal::Open(OptionsFor(folder_));
    if (!opened.ok()) {
      return opened.status();
    }
    journal_ = *std::move(opened);
    return journal_->Recover().status();
  }

  absl::Status Append() {
    in_flight_ = true;
    const absl::Status status = journal_->Append(GroupNumber(num_acknowledged_ + 1, num_updates() + 1));
    if (status.ok()) {
      ++num_acknowledged_;
      in_flight_ = false;
    }
    return status;
  }

  // Reads the history table. A read may fail, but if it succeeds, it must return the right records.
  void LookIntoHistory() {
    const auto found = journal_->FindArchived("j2");
    EXPECT_TRUE(!found.ok() || *found == "record 2") << "the history table lost a record";
    const auto listed = journal_->ListArchived(1'000, 100);
    EXPECT_TRUE(!listed.ok() || listed->size() == HoldingAfter(num_acknowledged_).history.size());
  }

  const std::string folder_;
  std::unique_ptr<SqliteJournal> journal_;
  int num_acknowledged_ = 0;
  bool in_flight_ = false;
};

absl::StatusOr<Holding> Read(const std::string& folder) {
  absl::StatusOr<std::unique_ptr<SqliteJournal>> journal = SqliteJournal::Open(OptionsFor(folder));
  if (!journal.ok()) {
    return journal.status();
  }
  absl::StatusOr<Journal::Recovered> recovered = (*journal)->Recover();
  if (!recovered.ok()) {
    return recovered.status();
  }
  Holding holding;
  if (recovered->snapshot_index > 0) {
    EXPECT_EQ(recovered->snapshot, SnapshotOf(recovered->snapshot_index));
    holding.updates = HoldingAfter(20).updates;
    holding.updates.resize(recovered->snapshot_index);
  }
  holding.updates.insert(holding.updates.end(), recovered->updates.begin(), recovered->updates.end());
  for (int n = 1; n <= 20; ++n) {
    const std::string id = absl::StrCat("j", n);
    if (const auto record = (*journal)->FindArchived(id); record.ok() && record->has_value()) {
      holding.history[id] = **record;
    }
  }
  return holding;
}

struct Scenario {
  std::string name;
  std::string before;  // First steps, in which no call fails.
  std::string steps;   // The steps in which calls fail.
  int at_least;        // The least number of disk calls in `steps`.
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

const Scenario kScenarios[] = {
    {"FirstStart", "", "oaaq", 60},
    {"RestartAfterClose", "oaaaq", "oafaq", 40},
    {"RestartAfterCrash", "oaaa", "oafaq", 40},
    {"Compaction", "oaaq", "oacaacaq", 60},
    {"CompactionThenRestart", "oaacaq", "oaqocaqoaq", 100},
    {"History", "oaaq", "ofafafafq", 50},
};

class JournalFaults : public testing::TestWithParam<Scenario> {
 protected:
  // Runs the scenario and lets the nth call fail. Returns false if there is no nth call.
  bool Play(int64_t nth, bool sticky, FaultyVfs::Fault fault) {
    const ShortLivedFolder earlier, folder;
    FaultyVfs vfs;
    Story story(folder.path());
    if (!GetParam().before.empty()) {
      Story before(earlier.path());
      EXPECT_TRUE(before.Run(GetParam().before).ok());
      // Copies the files of the earlier story to `folder`. If that story closed the journal, these are the closed
      // files, otherwise the files that a crash would leave.
      SeededRandom unused(0);
      vfs.LeaveAfterPowerCut(FaultyVfs::Survivors::kAll, unused, folder.path());
      story.GoOnFrom(before);
    }
    vfs.TakeFolder(folder.path());
    vfs.Arm(nth, sticky, fault);
    const absl::Status end = story.Run(GetParam().steps);
    EXPECT_FALSE(absl::IsDataLoss(end)) << "a call that failed was taken for damage: " << end;
    const bool fired = vfs.fired();
    vfs.Disarm();
    const std::string what = absl::StrCat(GetParam().name, ", call ", nth, sticky ? " and all after it" : "",
                                          " failed: ", vfs.failed_call(), "; the story ended with ", end.ToString());
    for (int seed = 0; seed < 2 + kSomeSeeds; ++seed) {
      ExpectWholeGroups(vfs, story, seed, what);
    }
    return fired;
  }

  // Runs the scenario once for each of its disk calls, and lets that call fail. Returns the number of calls.
  int64_t PlayAll(bool sticky, FaultyVfs::Fault fault) {
    int64_t nth = 1;
    while (Play(nth, sticky, fault) && !HasFailure()) {
      ++nth;
    }
    RecordProperty("faults", static_cast<int>(nth - 1));
    return nth - 1;
  }

 private:
  void ExpectWholeGroups(const FaultyVfs& vfs, const Story& story, int seed, const std::string& what) {
    const ShortLivedFolder left;
    SeededRandom random(seed);
    const auto survivors = seed == 0   ? FaultyVfs::Survivors::kNone
                           : seed == 1 ? FaultyVfs::Survivors::kAll
                                       : FaultyVfs::Survivors::kSome;
    vfs.LeaveAfterPowerCut(survivors, random, left.path());
    const absl::StatusOr<Holding> holding = Read(left.path());
    ASSERT_TRUE(holding.ok()) << holding.status() << "\n" << what << ", power cut " << seed;
    EXPECT_TRUE(*holding == HoldingAfter(story.num_acknowledged()) ||
                (story.in_flight() && *holding == HoldingAfter(story.num_acknowledged() + 1)))
        << what << ", power cut " << seed << ": " << story.num_acknowledged() << " groups were acknowledged, "
        << holding->updates.size() << " updates and " << holding->history.size() << " finished jobs are there";
  }
};

TEST_P(JournalFaults, CallThatFailsOnce_LosesNoAcknowledgedGroupAndTearsNone) {
  EXPECT_GE(PlayAll(/*sticky=*/false, FaultyVfs::Fault::kIo), GetParam().at_least);
}

TEST_P(JournalFaults, DiskThatFailsForGood_LosesNoAcknowledgedGroupAndTearsNone) {
  EXPECT_GE(PlayAll(/*sticky=*/true, FaultyVfs::Fault::kIo), GetParam().at_least);
}

TEST_P(JournalFaults, DiskThatIsFull_LosesNoAcknowledgedGroupAndTearsNone) {
  EXPECT_GE(PlayAll(/*sticky=*/true, FaultyVfs::Fault::kFull), GetParam().at_least / 5);
}

INSTANTIATE_TEST_SUITE_P(All, JournalFaults, testing::ValuesIn(kScenarios),
                         [](const auto& info) { return info.param.name; });

// If a write finds the disk full, it must succeed by using the space of the reserve.
TEST(JournalReserve, WriteThatFindsTheDiskFull_IsDoneAgainWithTheReserve) {
  int64_t nth = 1;
  int num_released = 0;
  for (bool fired = true; fired && !testing::Test::HasFailure(); ++nth) {
    const ShortLivedFolder folder;
    FaultyVfs vfs;
    Story story(folder.path());
    ASSERT_TRUE(story.Run("o").ok());
    vfs.Arm(nth, /*sticky=*/false, FaultyVfs::Fault::kFull);
    const absl::Status end = story.Run("aacaaa");
    EXPECT_TRUE(end.ok()) << end << ", write " << nth << ": " << vfs.failed_call();
    EXPECT_EQ(story.num_acknowledged(), 5);
    num_released += fs::exists(folder.path() + "/reserve") ? 0 : 1;
    fired = vfs.fired();
  }
  EXPECT_GE(nth, 30);
  EXPECT_GE(num_released, 20) << "no append met the full disk";
}

TEST(JournalReserve, DiskThatStaysFull_FailsTheAppendAndKeepsItsReason) {
  const ShortLivedFolder folder;
  FaultyVfs vfs;
  Story story(folder.path());
  ASSERT_TRUE(story.Run("oa").ok());
  vfs.Arm(1, /*sticky=*/true, FaultyVfs::Fault::kFull);
  EXPECT_EQ(ReasonOf(story.Run("a")), "DISK_FULL");
  EXPECT_FALSE(fs::exists(folder.path() + "/reserve"));
}

// A child process commits pairs of jobs until a call fails. This is how it ended: its wait status and its output ("ack
// <job>" lines, and the ledger's last messages).
struct Ending {
  int wait_status = 0;
  std::string said;
};

constexpr int kUnfired = 3;   // Exit code: all jobs were committed before the nth call.
constexpr int kSurvived = 4;  // Exit code: all jobs were committed although the nth call failed.
constexpr int kNotOpened = 5;

[[noreturn]] void CommitPairs(const std::string& folder, int64_t nth, int out) {
  FaultyVfs vfs;
  vfs.Arm(nth, /*sticky=*/false);
  absl::StatusOr<std::unique_ptr<SqliteJournal>> journal = SqliteJournal::Open(OptionsFor(folder));
  Ledger::Options options;
  options.snapshot_every = 6;
  if (!journal.ok()) {
    _exit(kNotOpened);
  }
  options.journal = *std::move(journal);
  absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Open(std::move(options));
  if (!ledger.ok()) {
    _exit(kNotOpened);
  }
  UpdateMaker make;
  for (int i = 0; i < 8; ++i) {
    for (const char* half : {"a", "b"}) {
      const std::string id = absl::StrCat("j", i, half);
      (*ledger)->Commit(make.Create(id, id), [=](const absl::StatusOr<Applied>& applied) {
        if (applied.ok()) {
          (void)WriteAll(out, absl::StrCat("ack ", id, "\n"));
        }
      });
    }
    (*ledger)->CommitGroup();
  }
  ledger->reset();
  _exit(vfs.fired() ? kSurvived : kUnfired);
}

Ending RunChild(const std::string& folder, int64_t nth) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    CommitPairs(folder, nth, ends[1]);
  }
  close(ends[1]);
  const UniqueFd in(ends[0]);
  Ending ending;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(in.get(), buffer, sizeof(buffer))) > 0;) {
    ending.said.append(buffer, count);
  }
  waitpid(child, &ending.wait_status, 0);
  return ending;
}

void ExpectWholePairs(const std::string& folder, const Ending& ending) {
  Ledger::Options options;
  options.journal = *SqliteJournal::Open(OptionsFor(folder));
  const absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Open(std::move(options));
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  std::set<std::string> there, acknowledged;
  (*ledger)->Read([&](const ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      there.insert(record->job().id());
    }
  });
  for (const absl::string_view line : absl::StrSplit(ending.said, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "ack ")) {
      acknowledged.insert(std::string(line.substr(4)));
    }
  }
  for (const std::string& id : acknowledged) {
    EXPECT_TRUE(there.contains(id)) << id << " was acknowledged and is lost";
  }
  EXPECT_LE(there.size(), acknowledged.size() + 2) << "more than the group in flight";
  EXPECT_EQ(there.size() % 2, 0u) << "half a group was kept";
}

TEST(LedgerFaults, FailedCall_EndsTheProcessAndTheNextOneHasEveryAcknowledgedJob) {
  int num_deaths = 0, num_not_opened = 0, num_survived = 0;
  for (int64_t nth = 1; !HasFailure(); ++nth) {
    SCOPED_TRACE(absl::StrCat("call ", nth));
    const ShortLivedFolder folder;
    const Ending ending = RunChild(folder.path(), nth);
    ExpectWholePairs(folder.path(), ending);
    if (WIFSIGNALED(ending.wait_status)) {
      EXPECT_EQ(WTERMSIG(ending.wait_status), SIGABRT);
      EXPECT_NE(ending.said.find("the journal can't be written"), std::string::npos) << ending.said;
      ++num_deaths;
      continue;
    }
    const int code = WEXITSTATUS(ending.wait_status);
    ASSERT_TRUE(code == kUnfired || code == kSurvived || code == kNotOpened) << code << "\n" << ending.said;
    num_not_opened += code == kNotOpened ? 1 : 0;
    num_survived += code == kSurvived ? 1 : 0;
    if (code == kUnfired) {
      break;
    }
  }
  std::printf("%d calls ended the process, %d kept it from opening, %d did no harm\n", num_deaths, num_not_opened,
              num_survived);
  EXPECT_GE(num_deaths, 30);
  EXPECT_GE(num_not_opened, 40);
}

}  // namespace
}  // namespace ampd::server
