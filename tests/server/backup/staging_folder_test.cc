#include "server/backup/staging_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "base/io/file.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;

class StagingFolderTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string path_ = folder_.Path("out");
};

TEST_F(StagingFolderTest, HasItsNameOnlyWhenItIsComplete) {
  {
    auto staging = StagingFolder::Create(path_ + "/");
    ASSERT_TRUE(staging.ok()) << staging.status();
    ASSERT_TRUE(WriteFileAtomically(staging->Path("file"), "content").ok());
    struct stat status = {};
    ASSERT_EQ(stat(staging->temporary().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    EXPECT_FALSE(fs::exists(path_));
    ASSERT_TRUE(staging->Commit().ok());
  }
  EXPECT_EQ(*ReadFile(path_ + "/file", 100), "content");
  EXPECT_FALSE(fs::exists(path_ + ".incomplete"));
}

TEST_F(StagingFolderTest, WithoutCommit_NothingIsLeft) {
  {
    const auto staging = StagingFolder::Create(path_);
    ASSERT_TRUE(WriteFileAtomically(staging->Path("file"), "content").ok());
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(StagingFolderTest, WhatAKilledProcessLeft_IsRemovedByTheNext) {
  fs::create_directories(path_ + ".incomplete/artifacts");
  ASSERT_TRUE(WriteFileAtomically(path_ + ".incomplete/artifacts/old", "old").ok());
  auto staging = StagingFolder::Create(path_);
  ASSERT_TRUE(staging.ok()) << staging.status();
  ASSERT_TRUE(staging->Commit().ok());
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(StagingFolderTest, SecondProcess_IsRefused) {
  const auto first = StagingFolder::Create(path_);
  EXPECT_EQ(ReasonOf(StagingFolder::Create(path_).status()), "ALREADY_RUNNING");
}

TEST_F(StagingFolderTest, FolderWithFiles_IsNeverReplaced) {
  fs::create_directory(path_);
  {
    auto staging = StagingFolder::Create(path_);
    ASSERT_TRUE(staging.ok()) << "an empty folder may be taken: " << staging.status();
    ASSERT_TRUE(WriteFileAtomically(path_ + "/came", "meanwhile").ok());
    EXPECT_EQ(ReasonOf(staging->Commit()), "CANNOT_WRITE");
  }
  EXPECT_EQ(*ReadFile(path_ + "/came", 100), "meanwhile");
  EXPECT_EQ(ReasonOf(StagingFolder::Create(path_).status()), "CANNOT_WRITE");
  EXPECT_EQ(ReasonOf(StagingFolder::Create(path_ + "/came").status()), "CANNOT_WRITE");
}

}  // namespace
}  // namespace ampd::server
