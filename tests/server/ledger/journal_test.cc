// The conformance suite, which all implementations of Journal must pass, and tests of the journal on disk.
#include "server/ledger/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "ampd/internal/journal.pb.h"
#include "base/error.h"
#include "base/io/file.h"
#include "server/ledger/memory_journal.h"
#include "server/ledger/sqlite_journal.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;

std::string MakeFolder(const std::string& in = testing::TempDir()) {
  std::string pattern = in + "/journal_XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

SqliteJournal::Options OptionsFor(const std::string& folder) {
  SqliteJournal::Options options;
  options.data_dir = folder;
  options.min_free_bytes = 0;
  options.reserve_bytes = 1 << 16;
  return options;
}

JournalGroup GroupOf(uint64_t first_index, std::vector<std::string> updates) {
  JournalGroup group;
  group.first_index = first_index;
  group.updates = std::move(updates);
  return group;
}

ArchivedJob Finished(const std::string& id, int64_t order, int64_t end, const std::string& name = "n") {
  return {id, name, order, end, "record of " + id};
}

// Opens a journal. All calls of one Opener use the same storage, so a second call does what a restarted server does.
using Opener = std::function<std::unique_ptr<Journal>()>;

class JournalConformance : public testing::TestWithParam<std::string> {
 protected:
  JournalConformance() {
    if (GetParam() == "memory") {
      auto disk = std::make_shared<MemoryJournal::Disk>();
      open_ = [disk] { return std::make_unique<MemoryJournal>(disk); };
    } else {
      open_ = [folder = MakeFolder()]() -> std::unique_ptr<Journal> {
        auto journal = SqliteJournal::Open(OptionsFor(folder));
        EXPECT_TRUE(journal.ok()) << journal.status();
        return *std::move(journal);
      };
    }
    journal = open_();
  }
  void Reopen() {
    journal.reset();
    journal = open_();
  }

  std::unique_ptr<Journal> journal;

 private:
  Opener open_;
};

TEST_P(JournalConformance, NewOne_IsEmpty) {
  const auto recovered = journal->Recover();
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->snapshot_index, 0u);
  EXPECT_TRUE(recovered->updates.empty());
  EXPECT_TRUE(journal->HasRoomForSubmits());
}

TEST_P(JournalConformance, AppendedUpdates_ComeBackInOrder) {
  ASSERT_TRUE(journal->Append(GroupOf(1, {"a", std::string("b\0c", 3)})).ok());
  ASSERT_TRUE(journal->Append(GroupOf(3, {"d", ""})).ok());
  Reopen();
  EXPECT_EQ(journal->Recover()->updates, (std::vector<std::string>{"a", std::string("b\0c", 3), "d", ""}));
}

TEST_P(JournalConformance, Gap_IsDataLoss) {
  ASSERT_TRUE(journal->Append(GroupOf(1, {"a"})).ok());
  ASSERT_TRUE(journal->Append(GroupOf(3, {"c"})).ok());
  Reopen();
  EXPECT_EQ(journal->Recover().status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(JournalConformance, Compaction_KeepsSnapshotAndLaterUpdates) {
  ASSERT_TRUE(journal->Append(GroupOf(1, {"a", "b", "c"})).ok());
  ASSERT_TRUE(journal->Compact(2, "state after b").ok());
  ASSERT_TRUE(journal->Append(GroupOf(4, {"d"})).ok());
  Reopen();
  auto recovered = journal->Recover();
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->snapshot, "state after b");
  EXPECT_EQ(recovered->snapshot_index, 2u);
  EXPECT_EQ(recovered->updates, (std::vector<std::string>{"c", "d"}));
}

TEST_P(JournalConformance, HistoryTable_FindsAndPages) {
  JournalGroup group = GroupOf(1, {"a"});
  group.archived = {Finished("j1", 1, 30), Finished("j2", 2, 10), Finished("j3", 3, 20)};
  ASSERT_TRUE(journal->Append(group).ok());
  Reopen();
  EXPECT_EQ(*journal->FindArchived("j2"), "record of j2");
  EXPECT_FALSE(journal->FindArchived("j9")->has_value());
  EXPECT_EQ(*journal->ListArchived(100, 2), (std::vector<std::string>{"record of j3", "record of j2"}));
  EXPECT_EQ(*journal->ListArchived(2, 10), (std::vector<std::string>{"record of j1"}));
  EXPECT_EQ(*journal->ListEnded({}, 30, 10), (std::vector<std::string>{"record of j2", "record of j3"}));
  EXPECT_EQ(*journal->ListEnded({10, 2}, 40, 1), (std::vector<std::string>{"record of j3"})) << "goes on behind j2";
  EXPECT_EQ(*journal->ListEnded({10, 1}, 11, 10), (std::vector<std::string>{"record of j2"})) << "of one time";
  JournalGroup change = GroupOf(2, {"b"});
  change.archived = {Finished("j1", 1, 30), Finished("j1", 1, 30)};
  change.archived[1].record = "another record of j1";
  ASSERT_TRUE(journal->Append(change).ok());
  Reopen();
  EXPECT_EQ(*journal->FindArchived("j1"), "another record of j1") << "the last one counts";
  EXPECT_EQ(journal->ListArchived(100, 10)->size(), 3u);
  JournalGroup removal = GroupOf(3, {"c"});
  removal.deleted = {"j2", "never there"};
  ASSERT_TRUE(journal->Append(removal).ok());
  EXPECT_FALSE(journal->FindArchived("j2")->has_value());
  EXPECT_EQ(journal->ListArchived(100, 10)->size(), 2u);
}

TEST_P(JournalConformance, HistoryTable_FindsByNameAndByTheBeginningOfAnId) {
  JournalGroup group = GroupOf(1, {"a"});
  group.archived = {Finished("j-aa", 1, 30, "x"), Finished("j-ab", 2, 10, "y"), Finished("j-b", 3, 20, "x")};
  ASSERT_TRUE(journal->Append(group).ok());
  Reopen();
  EXPECT_EQ(*journal->FindArchivedNamed("x", 10), (std::vector<std::string>{"record of j-b", "record of j-aa"}));
  EXPECT_EQ(*journal->FindArchivedNamed("x", 1), (std::vector<std::string>{"record of j-b"}));
  EXPECT_TRUE(journal->FindArchivedNamed("", 10)->empty());
  EXPECT_EQ(*journal->FindArchivedWithPrefix("j-a", 10),
            (std::vector<std::string>{"record of j-aa", "record of j-ab"}));
  EXPECT_EQ(*journal->FindArchivedWithPrefix("j-a", 1), (std::vector<std::string>{"record of j-aa"}));
  EXPECT_EQ(*journal->FindArchivedWithPrefix("j-ab", 10), (std::vector<std::string>{"record of j-ab"}));
  EXPECT_TRUE(journal->FindArchivedWithPrefix("j-aba", 10)->empty());
  JournalGroup change = GroupOf(2, {"b"});
  change.archived = {Finished("j-aa", 1, 30, "x")};
  change.archived[0].record = "another record of j-aa";
  change.deleted = {"j-b"};
  ASSERT_TRUE(journal->Append(change).ok());
  EXPECT_EQ(*journal->FindArchivedNamed("x", 10), (std::vector<std::string>{"another record of j-aa"}));
}

INSTANTIATE_TEST_SUITE_P(AllKinds, JournalConformance, testing::Values("memory", "sqlite"),
                         [](const auto& info) { return info.param; });

TEST(SqliteJournal, SecondServer_IsRefusedTheDirectory) {
  const std::string folder = MakeFolder();
  auto first = SqliteJournal::Open(OptionsFor(folder));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ReasonOf(SqliteJournal::Open(OptionsFor(folder)).status()), "DATA_DIRECTORY_LOCKED");
  first->reset();
  EXPECT_TRUE(SqliteJournal::Open(OptionsFor(folder)).ok());
}

TEST(SqliteJournal, NewerSchema_IsRefused) {
  const std::string folder = MakeFolder();
  ASSERT_TRUE(SqliteJournal::Open(OptionsFor(folder)).ok());
  {
    auto database = SqliteDatabase::Open(folder + "/journal.db", false);
    ASSERT_TRUE(database->Execute("PRAGMA user_version = 3").ok());
  }
  EXPECT_EQ(ReasonOf(SqliteJournal::Open(OptionsFor(folder)).status()), "NEWER_SCHEMA");
}

// Writes a journal with version 1 of the schema that has one finished job for each record.
void WriteFirstVersion(const std::string& folder, const std::map<std::string, std::string>& records) {
  auto database = SqliteDatabase::Open(folder + "/journal.db", true);
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE(
      database
          ->Execute(
              "CREATE TABLE updates(idx INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
              "CREATE TABLE snapshots(id INTEGER PRIMARY KEY CHECK (id = 1), idx INTEGER NOT NULL, bytes BLOB NOT "
              "NULL);"
              "CREATE TABLE finished_jobs(id TEXT PRIMARY KEY, submit_order INTEGER NOT NULL UNIQUE,"
              " end_time INTEGER NOT NULL, bytes BLOB NOT NULL) WITHOUT ROWID;"
              "CREATE INDEX finished_by_end ON finished_jobs(end_time);"
              "PRAGMA user_version = 1;")
          .ok());
  auto add = database->Prepare("INSERT INTO finished_jobs(id, submit_order, end_time, bytes) VALUES(?1, ?2, ?2, ?3)");
  int64_t order = 0;
  for (const auto& [id, record] : records) {
    add->Bind(1, std::string_view(id)).Bind(2, ++order).Bind(3, std::string_view(record));
    ASSERT_TRUE(add->Run().ok());
  }
}

TEST(SqliteJournal, AFileOfTheFirstVersion_GetsTheNamesOfItsFinishedJobs) {
  const std::string folder = MakeFolder();
  std::map<std::string, std::string> records;
  for (const char* id : {"j-a", "j-b", "j-c"}) {
    internal::JobRecord record;
    record.mutable_job()->set_id(id);
    record.mutable_job()->mutable_spec()->set_name(std::string(id) == "j-b" ? "other" : "one");
    records[id] = record.SerializeAsString();
  }
  WriteFirstVersion(folder, records);
  for (int start = 0; start < 2; ++start) {
    auto journal = SqliteJournal::Open(OptionsFor(folder));
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ(*(*journal)->FindArchivedNamed("one", 10), (std::vector<std::string>{records["j-c"], records["j-a"]}));
    EXPECT_EQ(*(*journal)->FindArchivedNamed("other", 10), (std::vector<std::string>{records["j-b"]}));
    EXPECT_EQ(*(*journal)->FindArchived("j-a"), records["j-a"]);
  }
}

TEST(SqliteJournal, AFileOfTheFirstVersionWithADamagedRecord_IsRefusedAndLeftAlone) {
  const std::string folder = MakeFolder();
  WriteFirstVersion(folder, {{"j-a", ""}, {"j-b", "\xff\xff"}});
  EXPECT_EQ(ReasonOf(SqliteJournal::Open(OptionsFor(folder)).status()), "STORE_CORRUPT");
  auto database = SqliteDatabase::Open(folder + "/journal.db", false);
  auto version = database->Prepare("PRAGMA user_version");
  ASSERT_TRUE(*version->Step());
  EXPECT_EQ(version->Int(0), 1);
}

TEST(SqliteJournal, FileThatIsNoDatabase_IsRefusedAndLeftAlone) {
  const std::string folder = MakeFolder();
  const std::string garbage(8192, 'x');
  ASSERT_TRUE(WriteFileAtomically(folder + "/journal.db", garbage).ok());
  EXPECT_EQ(ReasonOf(SqliteJournal::Open(OptionsFor(folder)).status()), "STORE_CORRUPT");
  EXPECT_EQ(*ReadFile(folder + "/journal.db", 1 << 20), garbage);
}

TEST(SqliteJournal, LittleFreeSpace_RefusesSubmits) {
  SqliteJournal::Options options = OptionsFor(MakeFolder());
  options.min_free_bytes = int64_t{1} << 60;
  const auto journal = SqliteJournal::Open(options);
  ASSERT_TRUE(journal.ok());
  EXPECT_FALSE((*journal)->HasRoomForSubmits());
  EXPECT_TRUE((*journal)->Append(GroupOf(1, {"an end"})).ok());
}

TEST(SqliteJournal, Reserve_IsMadeOnOpen) {
  const std::string folder = MakeFolder();
  ASSERT_TRUE(SqliteJournal::Open(OptionsFor(folder)).ok());
  EXPECT_EQ(fs::file_size(folder + "/reserve"), 1u << 16);
}

// Cuts off the write-ahead log at every byte of its tail. Each time, exactly the commits that were complete before the
// cut must be recovered.
TEST(SqliteJournal, LogCutAtEveryByteOfItsTail_RecoversWholeCommits) {
  const std::string folder = MakeFolder();
  const std::string wal = folder + "/journal.db-wal";
  // The copy is in memory if possible, because it is opened thousands of times and the test does not depend on its
  // syncs.
  const std::string copy = MakeFolder(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : testing::TempDir());
  std::vector<uintmax_t> ends;  // The size of the log after each commit.
  std::vector<std::string> updates;
  constexpr int kCommits = 8;
  constexpr int kTail = 2;  // The bytes of the last kTail commits are cut off one by one.
  {
    auto journal = SqliteJournal::Open(OptionsFor(folder));
    ASSERT_TRUE(journal.ok());
    for (int i = 1; i <= kCommits; ++i) {
      // No two updates are equal, so the test notices if an update is read in place of another.
      const std::vector<std::string> group = {absl::StrCat("update ", i, " a"),
                                              std::string(200, static_cast<char>('a' + i))};
      ASSERT_TRUE((*journal)->Append(GroupOf(2 * i - 1, group)).ok());
      updates.insert(updates.end(), group.begin(), group.end());
      ends.push_back(fs::file_size(wal));
    }
    // The journal is not closed yet, so the copied files are those that a crash would leave.
    fs::copy(folder + "/journal.db", copy + "/journal.db");
    fs::copy(wal, copy + "/journal.db-wal");
  }
  const std::string database = *ReadFile(copy + "/journal.db", 1 << 26);
  const std::string log = *ReadFile(copy + "/journal.db-wal", 1 << 26);
  ASSERT_EQ(log.size(), ends.back());
  for (size_t cut = ends[kCommits - kTail - 1]; cut <= log.size(); ++cut) {
    const UniqueFd database_file(open((copy + "/journal.db").c_str(), O_WRONLY | O_TRUNC));
    ASSERT_TRUE(WriteAll(database_file.get(), database).ok());
    const UniqueFd log_file(open((copy + "/journal.db-wal").c_str(), O_WRONLY | O_TRUNC | O_CREAT, 0644));
    ASSERT_TRUE(WriteAll(log_file.get(), std::string_view(log).substr(0, cut)).ok());
    fs::remove(copy + "/journal.db-shm");
    SqliteJournal::Options options = OptionsFor(copy);
    options.reserve_bytes = 0;
    auto journal = SqliteJournal::Open(options);
    ASSERT_TRUE(journal.ok()) << journal.status() << " cut at " << cut;
    const auto recovered = (*journal)->Recover();
    ASSERT_TRUE(recovered.ok()) << "cut at " << cut;
    const auto whole = std::count_if(ends.begin(), ends.end(), [&](uintmax_t end) { return end <= cut; });
    const std::vector<std::string> expected(updates.begin(), updates.begin() + 2 * whole);
    ASSERT_EQ(recovered->updates, expected) << "cut at " << cut << " of " << log.size();
  }
  fs::remove_all(copy);
}

}  // namespace
}  // namespace ampd::server
