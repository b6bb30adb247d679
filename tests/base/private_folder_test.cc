#include "base/io/private_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/io/pending_file.h"
#include "base/io/sqlite.h"
#include "base/ipc/unix_socket.h"

namespace ampd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

class PrivateFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/private_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    top_ = std::filesystem::canonical(pattern).string();
    path_ = top_ + "/state";
    mask_ = umask(0);  // Without a umask, a new file has the mode that the code asks for.
  }
  void TearDown() override {
    umask(mask_);
    std::filesystem::remove_all(top_);
  }

  std::string In(const std::string& name) const { return path_ + "/" + name; }
  void MakeFolder(const std::string& path, mode_t mode) const {
    ASSERT_EQ(mkdir(path.c_str(), mode), 0);
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  void MakeFile(const std::string& path, mode_t mode) const {
    ASSERT_TRUE(UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)).ok()) << path;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
  absl::StatusOr<std::vector<std::string>> Prepare(int depth = 2, bool others_may_enter = false) const {
    return PreparePrivateFolder({.path = path_,
                                 .what = "the state folder",
                                 .depth = depth,
                                 .others_may_enter = others_may_enter,
                                 .readable = {"tls"}});
  }
  // Prepares the folder, and returns the message of the refusal; empty if the folder was accepted.
  std::string Refusal() const {
    const auto prepared = Prepare();
    EXPECT_TRUE(prepared.ok() || ReasonOf(prepared.status()) == "OPEN_TO_OTHERS") << prepared.status();
    return std::string(prepared.status().message());
  }

  std::string top_;
  std::string path_;
  mode_t mask_ = 0;
};

TEST_F(PrivateFolderTest, NewFoldersAreForTheirOwnerOnly) {
  path_ = top_ + "/a/b/state";
  EXPECT_THAT(*Prepare(), IsEmpty());
  for (const char* name : {"/a", "/a/b", "/a/b/state"}) {
    EXPECT_EQ(ModeOf(top_ + name), 0700u) << name;
  }
}

TEST_F(PrivateFolderTest, AnotherKindOfFileInItsPlaceIsAnError) {
  MakeFile(path_, 0600);
  EXPECT_THAT(std::string(Prepare().status().message()), HasSubstr("Not a directory"));
}

TEST_F(PrivateFolderTest, AFolderThatOthersReadIsClosedWithItsFiles) {
  MakeFolder(path_, 0755);
  MakeFile(In("journal.db"), 0644);
  MakeFolder(In("artifacts"), 0755);
  MakeFile(In("artifacts/a"), 0604);
  MakeFolder(In("artifacts/deep"), 0755);
  MakeFile(In("artifacts/deep/b"), 0644);
  EXPECT_THAT(*Prepare(), ElementsAre(absl::StrCat("closed ", path_,
                                                   " to other users: mode 0755 is now 0700, and 4 more in the state "
                                                   "folder")));
  EXPECT_EQ(ModeOf(path_), 0700u);
  EXPECT_EQ(ModeOf(In("journal.db")), 0600u);
  EXPECT_EQ(ModeOf(In("artifacts")), 0700u);
  EXPECT_EQ(ModeOf(In("artifacts/a")), 0600u);
  EXPECT_EQ(ModeOf(In("artifacts/deep")), 0700u);
  EXPECT_EQ(ModeOf(In("artifacts/deep/b")), 0644u);  // The file lies deeper than Prepare looks.
  EXPECT_THAT(*Prepare(), IsEmpty());                // The second call finds nothing left to close to other users.
}

TEST_F(PrivateFolderTest, WhatOnlyTheGroupMayReadStays) {
  MakeFolder(path_, 0750);
  MakeFile(In("audit.log"), 0640);
  EXPECT_THAT(*Prepare(), IsEmpty());
  EXPECT_EQ(ModeOf(path_), 0750u);
  EXPECT_EQ(ModeOf(In("audit.log")), 0640u);
}

TEST_F(PrivateFolderTest, AFolderOfCertificatesKeepsItsReaders) {
  MakeFolder(path_, 0700);
  MakeFolder(In("tls"), 0755);
  MakeFile(In("tls/ca.pem"), 0644);
  EXPECT_THAT(*Prepare(), IsEmpty());
  EXPECT_EQ(ModeOf(In("tls/ca.pem")), 0644u);
  ASSERT_EQ(chmod(In("tls/ca.pem").c_str(), 0664), 0);
  EXPECT_THAT(Refusal(), HasSubstr("chmod go-w " + In("tls/ca.pem")));
}

TEST_F(PrivateFolderTest, UsersOfASocketMayStillEnter) {
  MakeFolder(path_, 0755);
  MakeFile(In("journal.db"), 0644);
  ASSERT_TRUE(Prepare(2, /*others_may_enter=*/true).ok());
  EXPECT_EQ(ModeOf(path_), 0711u);
  EXPECT_EQ(ModeOf(In("journal.db")), 0600u);
  EXPECT_THAT(*Prepare(2, /*others_may_enter=*/true), IsEmpty());
  ASSERT_TRUE(Prepare(2, /*others_may_enter=*/false).ok());
  EXPECT_EQ(ModeOf(path_), 0700u);
}

TEST_F(PrivateFolderTest, AFolderThatOthersWriteIsRefusedWithTheCommandThatMendsIt) {
  for (const mode_t mode : {0770u, 0720u, 0702u, 0777u, 01777u}) {
    MakeFolder(path_, mode);
    EXPECT_EQ(Refusal(), absl::StrCat("the state folder ", path_, " has mode ", absl::StrFormat("%04o", mode),
                                      ", so that other users can change what ampd trusts; if they did not, correct it "
                                      "with: chmod go-w ",
                                      path_));
    EXPECT_EQ(ModeOf(path_), mode);  // A refused folder is left as it is.
    ASSERT_EQ(system(absl::StrCat("chmod go-w ", path_).c_str()), 0);
    EXPECT_EQ(Refusal(), "");
    std::filesystem::remove_all(path_);
  }
}

TEST_F(PrivateFolderTest, EachFileThatOthersWriteIsRefused) {
  MakeFolder(path_, 0700);
  MakeFolder(In("spawn"), 0700);
  for (const char* name : {"journal.db", "tokens.db", "lock", "agent-id", "spawn/record"}) {
    MakeFile(In(name), 0620);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr(absl::StrCat(In(name), " in the state folder has mode 0620")),
                                 EndsWith("chmod go-w " + In(name))));
    std::filesystem::remove(In(name));
  }
  MakeFolder(In("tls"), 0770);
  EXPECT_THAT(Refusal(), HasSubstr(In("tls")));
}

TEST_F(PrivateFolderTest, OneCommandMendsAllOfThem) {
  MakeFolder(path_, 0775);
  MakeFile(In("journal.db"), 0664);
  MakeFile(In("metrics.db"), 0664);
  const std::string refusal = Refusal();
  EXPECT_THAT(refusal, AllOf(HasSubstr("mode 0775, and others have write permission to 2 more in it, so"),
                             EndsWith("chmod -R go-w " + path_)));
  ASSERT_EQ(system(refusal.substr(refusal.rfind("chmod")).c_str()), 0);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(PrivateFolderTest, ACommandForAnOddNameCanBePasted) {
  path_ = top_ + "/it's a $(false) state";
  MakeFolder(path_, 0770);
  const std::string refusal = Refusal();
  ASSERT_EQ(system(refusal.substr(refusal.rfind("chmod")).c_str()), 0) << refusal;
  EXPECT_EQ(Refusal(), "");
}

TEST_F(PrivateFolderTest, ALinkCountsAsWhatItLeadsTo) {
  MakeFolder(top_ + "/disk", 0755);
  ASSERT_EQ(symlink((top_ + "/disk").c_str(), path_.c_str()), 0);
  ASSERT_TRUE(Prepare().ok());
  EXPECT_EQ(ModeOf(top_ + "/disk"), 0700u);
  ASSERT_EQ(chmod((top_ + "/disk").c_str(), 0770), 0);
  EXPECT_THAT(Refusal(), HasSubstr("mode 0770"));
  path_ += "/";
  EXPECT_THAT(Refusal(), HasSubstr("mode 0770"));
}

TEST_F(PrivateFolderTest, ALinkInTheFolderIsFollowedButNotClosed) {
  MakeFolder(path_, 0700);
  MakeFile(top_ + "/elsewhere", 0644);
  ASSERT_EQ(symlink((top_ + "/elsewhere").c_str(), In("metrics.db").c_str()), 0);
  ASSERT_EQ(symlink("/nowhere", In("dangling").c_str()), 0);
  EXPECT_THAT(*Prepare(), IsEmpty());
  EXPECT_EQ(ModeOf(top_ + "/elsewhere"), 0644u);
  ASSERT_EQ(chmod((top_ + "/elsewhere").c_str(), 0646), 0);
  EXPECT_THAT(Refusal(), HasSubstr(In("metrics.db")));
}

TEST_F(PrivateFolderTest, ASocketMayBeForAllUsers) {
  MakeFolder(path_, 0700);
  const auto listener = ListenUnix(In("ampd.sock"));
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(chmod(In("ampd.sock").c_str(), 0666), 0);
  EXPECT_THAT(*Prepare(), IsEmpty());
  EXPECT_EQ(ModeOf(In("ampd.sock")), 0666u);
}

TEST_F(PrivateFolderTest, AFolderAboveThatIsOpenToAllIsReported) {
  MakeFolder(path_, 0700);
  ASSERT_EQ(chmod(top_.c_str(), 0777), 0);
  EXPECT_THAT(*Prepare(), ElementsAre(AllOf(HasSubstr("every user"), EndsWith("chmod +t " + top_))));
  ASSERT_EQ(chmod(top_.c_str(), 01777), 0);  // The mode of /tmp: only an entry's owner can remove it.
  EXPECT_THAT(*Prepare(), IsEmpty());
}

TEST_F(PrivateFolderTest, WhatAnotherUserOwnsIsRefused) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can give files to another user";
  }
  constexpr uid_t kOther = 12345;
  MakeFolder(path_, 0700);
  ASSERT_EQ(chown(path_.c_str(), kOther, kOther), 0);
  EXPECT_EQ(Refusal(),
            absl::StrCat("the state folder ", path_,
                         " (mode 0700) belongs to the user 12345, but only root may own what ampd trusts; if "
                         "its content is right, correct it with: chown root ",
                         path_));
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  EXPECT_EQ(Refusal(), "");
  MakeFile(In("journal.db"), 0600);
  ASSERT_EQ(chown(In("journal.db").c_str(), kOther, 0), 0);
  EXPECT_THAT(Refusal(), HasSubstr(In("journal.db")));
  std::filesystem::remove(In("journal.db"));
  MakeFile(top_ + "/mine", 0600);
  ASSERT_EQ(symlink((top_ + "/mine").c_str(), In("journal.db").c_str()), 0);
  ASSERT_EQ(lchown(In("journal.db").c_str(), kOther, 0), 0);
  EXPECT_THAT(Refusal(), HasSubstr(In("journal.db")));
  std::filesystem::remove_all(path_);
  MakeFolder(top_ + "/mine.d", 0700);
  ASSERT_EQ(symlink((top_ + "/mine.d").c_str(), path_.c_str()), 0);
  ASSERT_EQ(lchown(path_.c_str(), kOther, 0), 0);
  EXPECT_THAT(Refusal(), HasSubstr("belongs to the user 12345"));
}

TEST_F(PrivateFolderTest, AFileIsCheckedAlone) {
  EXPECT_TRUE(CheckOnlyOwnerWrites(top_ + "/missing", "the file").ok());
  MakeFile(top_ + "/contexts", 0644);
  EXPECT_TRUE(CheckOnlyOwnerWrites(top_ + "/contexts", "the file").ok());
  EXPECT_EQ(ModeOf(top_ + "/contexts"), 0644u);
  ASSERT_EQ(chmod((top_ + "/contexts").c_str(), 0660), 0);
  EXPECT_THAT(std::string(CheckOnlyOwnerWrites(top_ + "/contexts", "the file").message()),
              AllOf(HasSubstr("the file " + top_ + "/contexts has mode 0660"), HasSubstr("chmod go-w")));
}

TEST_F(PrivateFolderTest, FilesThatTheLibraryWritesArePrivateUnlessAUserAskedForThem) {
  ASSERT_TRUE(WriteFileAtomically(top_ + "/record", "x").ok());
  EXPECT_EQ(ModeOf(top_ + "/record"), 0600u);
  MakeFile(top_ + "/report.tmp", 0666);  // A file that a crash left must not decide the mode.
  ASSERT_TRUE(WriteFileAtomically(top_ + "/report", "x", kUserFile).ok());
  EXPECT_EQ(ModeOf(top_ + "/report"), 0644u);
  auto pending = PendingFile::Create(top_ + "/sample", /*replace=*/true, kPrivateFile);
  ASSERT_TRUE(pending.ok() && pending->Commit().ok());
  EXPECT_EQ(ModeOf(top_ + "/sample"), 0600u);
}

TEST_F(PrivateFolderTest, ADatabaseAndTheFilesBesideItArePrivate) {
  auto database = server::SqliteDatabase::Open(top_ + "/a.db", /*create=*/true);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(database->Execute("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)").ok());
  for (const char* name : {"/a.db", "/a.db-wal", "/a.db-shm"}) {
    EXPECT_EQ(ModeOf(top_ + name), 0600u) << name;
  }
}

}  // namespace
}  // namespace ampd
