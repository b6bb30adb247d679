#include "server/backup/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/io/sqlite.h"
#include "base/random.h"
#include "base/version.h"
#include "server/backup/backup.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMax = 64 << 20;

class CheckTest : public testing::Test {
 protected:
  CheckTest() {
    server_ = std::make_unique<TestServer>([this](ServerConfig* config) { config->data_dir = data_; });
    ScriptedWorker worker(server_.get(), "w1");
    const std::string id = server_->CreateJob().id();
    const v1::AttemptKey key = worker.Adopt(id);
    v1::TelemetryBatch batch = Steps(1, 20);
    v1::Sample& sample = *batch.add_samples();
    sample.set_attempt_sequence(21);
    sample.set_step(20);
    sample.set_file_name("sample.txt");
    sample.set_content("sample");
    worker.Upload(key, batch);
    worker.Finish(key, 21);
  }

  std::string Check() { return CheckDataDirectory(data_).ToText(); }
  // Stops the server and applies SQL to one of its databases.
  void Change(const std::string& name, const char* sql) {
    server_.reset();
    auto database = SqliteDatabase::Open(data_ + "/" + name, /*create=*/false);
    ASSERT_TRUE(database->Execute(sql).ok()) << sql;
  }
  std::string Content() const { return data_ + "/artifacts/" + Sha256Hex("sample"); }

  TemporaryFolder folder_;
  const std::string data_ = folder_.Path("data");
  std::unique_ptr<TestServer> server_;
};

TEST_F(CheckTest, UndamagedDirectory_IsOk_WhetherItsServerRunsOrNot) {
  EXPECT_TRUE(CheckDataDirectory(data_).ok()) << Check();
  EXPECT_THAT(Check(), AllOf(HasSubstr("OK     permissions: "),
                             HasSubstr("OK     journal.db: undamaged, schema 2; replayed up "),
                             HasSubstr(": 1 job in memory, 0 in the history, 1 worker\n"),
                             HasSubstr("OK     metrics.db: undamaged, schema 1\n"),
                             HasSubstr("OK     artifacts.db: undamaged, schema 2; 1 name of 1 content\n"),
                             HasSubstr("OK     artifacts: 1 content, 6 bytes, with their SHA-256\n"),
                             HasSubstr("OK     tokens.db: undamaged, schema 1; 0 tokens\n"),
                             HasSubstr("OK     audit.log: 1 file\n"), Not(HasSubstr("NOTE")), Not(HasSubstr("WRONG"))));
  server_.reset();
  EXPECT_TRUE(CheckDataDirectory(data_).ok()) << Check();
}

TEST_F(CheckTest, Check_ChangesNoDatabase) {
  server_.reset();
  const std::string journal = *ReadFile(data_ + "/journal.db", kMax);
  const std::string metrics = *ReadFile(data_ + "/metrics.db", kMax);
  Check();
  EXPECT_EQ(*ReadFile(data_ + "/journal.db", kMax), journal);
  EXPECT_EQ(*ReadFile(data_ + "/metrics.db", kMax), metrics);
}

TEST_F(CheckTest, DamagedPageOfAnyDatabase_IsFound) {
  server_.reset();
  for (const char* const name : {"journal.db", "metrics.db", "artifacts.db", "tokens.db"}) {
    const std::string path = absl::StrCat(data_, "/", name);
    const std::string good = *ReadFile(path, kMax);
    std::string bad = good;
    bad.replace(4096, 512, 512, '\x5a');  // The start of the second page, the root of the first table or index.
    ASSERT_TRUE(WriteFileAtomically(path, bad).ok());
    EXPECT_THAT(Check(), HasSubstr(absl::StrCat("WRONG  ", name, ": "))) << name;
    EXPECT_THAT(Check(), HasSubstr("restore the newest backup"));
    ASSERT_TRUE(WriteFileAtomically(path, good).ok());
  }
  EXPECT_TRUE(CheckDataDirectory(data_).ok()) << Check();
}

TEST_F(CheckTest, FileThatIsNoDatabase_IsFound) {
  server_.reset();
  ASSERT_TRUE(WriteFileAtomically(data_ + "/journal.db", std::string(8192, 'x')).ok());
  EXPECT_THAT(Check(), HasSubstr("WRONG  journal.db: the store is damaged"));
  fs::remove(data_ + "/journal.db");
  EXPECT_THAT(Check(), HasSubstr("WRONG  journal.db: there is none"));
}

TEST_F(CheckTest, UpdateThatIsMissing_IsFound) {
  Change("journal.db", "DELETE FROM updates WHERE idx = 2");
  EXPECT_THAT(Check(), HasSubstr("WRONG  journal.db: the journal is damaged: update 2 is missing"));
}

TEST_F(CheckTest, UpdateThatCannotBeReplayed_IsFound) {
  Change("journal.db", "UPDATE updates SET bytes = x'ffff' WHERE idx = 2");
  EXPECT_THAT(Check(), HasSubstr("WRONG  journal.db: update 2 of the journal can't be replayed"));
}

TEST_F(CheckTest, DamagedRecordOfTheHistory_IsFound) {
  Change("journal.db", "INSERT INTO finished_jobs VALUES(CAST('j-x' AS BLOB), 99, 1, x'ffff', '')");
  EXPECT_THAT(Check(), HasSubstr("the record of the finished job j-x can't be read"));
}

TEST_F(CheckTest, NewerSchema_IsNamed) {
  Change("tokens.db", "PRAGMA user_version = 9");
  EXPECT_THAT(Check(), HasSubstr(absl::StrCat("WRONG  tokens.db: it has schema 9, this ampd ", Version(),
                                              " knows 1; start the newer version that wrote it, or ")));
}

TEST_F(CheckTest, DamagedAndMissingContents_AreNamedWithWhatToDo) {
  ASSERT_TRUE(WriteFileAtomically(Content(), "simple").ok());
  const std::string name = "artifacts/" + Sha256Hex("sample");
  EXPECT_THAT(Check(), HasSubstr(absl::StrCat("WRONG  ", name, ": its content has another SHA-256")));
  fs::remove(Content());
  EXPECT_THAT(Check(), HasSubstr(absl::StrCat("WRONG  ", name,
                                              ": it is missing; copy it from a backup, or delete it: "
                                              "ampctl artifact delete ")));
}

TEST_F(CheckTest, FileWithoutAName_IsANoteAndNoError) {
  ASSERT_TRUE(WriteFileAtomically(data_ + "/artifacts/" + Sha256Hex("orphan"), "orphan").ok());
  EXPECT_THAT(Check(), HasSubstr("NOTE   artifacts: no name refers to 1 file, such as " + Sha256Hex("orphan")));
  EXPECT_TRUE(CheckDataDirectory(data_).ok());
}

TEST_F(CheckTest, FilesThatOthersCanWriteOrRead_AreFound) {
  ASSERT_EQ(chmod((data_ + "/metrics.db").c_str(), 0666), 0);
  EXPECT_THAT(Check(), AllOf(HasSubstr("WRONG  permissions: "), HasSubstr("chmod go-w ")));
  ASSERT_EQ(chmod((data_ + "/metrics.db").c_str(), 0644), 0);
  EXPECT_THAT(Check(),
              HasSubstr("WRONG  permissions: every user can read " + data_ + "/metrics.db; correct it with: chmod"));
}

TEST_F(CheckTest, DamagedToken_IsFound) {
  Change("tokens.db", "INSERT INTO tokens VALUES(x'61', x'62', x'ffff')");
  EXPECT_THAT(Check(), HasSubstr("WRONG  tokens.db: the store is damaged: a token's row is malformed"));
}

TEST_F(CheckTest, Backup_IsCheckedWithoutWritingToIt) {
  ASSERT_TRUE(
      MakeBackup({.data_dir = data_, .out = folder_.Path("b"), .clock = &SystemClock(), .before_step = nullptr}).ok());
  const auto count = [&] {
    int count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.Path("b"))) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  };
  const int before = count();
  const CheckReport report = CheckBackup(folder_.Path("b"));
  EXPECT_TRUE(report.ok()) << report.ToText();
  EXPECT_THAT(report.ToText(), HasSubstr("OK     manifest.json: "));
  EXPECT_EQ(count(), before);
  EXPECT_THAT(CheckBackup(folder_.Path("data")).ToText(), HasSubstr("WRONG  manifest.json: "));
}

}  // namespace
}  // namespace ampd::server
