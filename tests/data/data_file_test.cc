#include "data/data_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "data/byte_stream.h"
#include "tests/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FileError, ReasonIsTheHostsOrTheDatas) {
  const std::map<int, std::string> reasons = {
      {EIO, "DEVICE_ERROR"},       {ESTALE, "DEVICE_ERROR"},       {EMFILE, "DEVICE_ERROR"},
      {ENFILE, "DEVICE_ERROR"},    {ENOMEM, "DEVICE_ERROR"},       {EAGAIN, "DEVICE_ERROR"},
      {ETIMEDOUT, "DEVICE_ERROR"}, {ENETDOWN, "DEVICE_ERROR"},     {EHOSTUNREACH, "DEVICE_ERROR"},
      {ENOTCONN, "DEVICE_ERROR"},  {ECONNREFUSED, "DEVICE_ERROR"}, {ENODEV, "DEVICE_ERROR"},
      {ENOENT, "DATA_ERROR"},      {ENOTDIR, "DATA_ERROR"},        {EACCES, "DATA_ERROR"},
      {EPERM, "DATA_ERROR"},       {EISDIR, "DATA_ERROR"},         {ELOOP, "DATA_ERROR"},
      {EXDEV, "DATA_ERROR"},       {ENAMETOOLONG, "DATA_ERROR"},   {EINVAL, "DATA_ERROR"}};
  for (const auto& [error, reason] : reasons) {
    const absl::Status status = FileError("data.train", error);
    EXPECT_EQ(ReasonOf(status), reason) << strerrorname_np(error) << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("data.train: ")) << strerrorname_np(error);
  }
}

// /proc/self/mem can be opened but not read from its beginning, because nothing is mapped at address 0. So reading it
// fails with EIO, like a failing disk.
TEST(FileError, DiskThatFails_IsNotTheDatasFault) {
  const auto stream = ByteStream::Open({.root = "/proc/self", .path = "mem", .name = "data.train.images"});
  EXPECT_EQ(ReasonOf(stream.status()), "DEVICE_ERROR") << stream.status();
  EXPECT_THAT(std::string(stream.status().message()), HasSubstr("data.train.images: "));
  EXPECT_THAT(std::string(stream.status().message()), HasSubstr("Input/output error"));
  EXPECT_THAT(std::string(stream.status().message()), Not(HasSubstr("/proc")));
}

TEST(ArchiveError, ReasonIsTheHostsOnlyWhereTheArchiveIsUnavailable) {
  EXPECT_EQ(ReasonOf(ArchiveError("model", absl::UnavailableError("Input/output error"))), "DEVICE_ERROR");
  EXPECT_EQ(ReasonOf(ArchiveError("model", absl::DataLossError("not a sound ZIP archive"))), "DATA_ERROR");
  EXPECT_EQ(ReasonOf(ArchiveError("model", absl::InvalidArgumentError("an op that is not allowed"))), "DATA_ERROR");
}

using DataFileTest = DataFolderTest;

TEST_F(DataFileTest, ProcessWithTooManyFiles_IsNotTheDatasFault) {
  Write("f", "content");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto opened = OpenDataFile(At("f"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(ReasonOf(opened.status()), "DEVICE_ERROR") << opened.status();
  EXPECT_TRUE(OpenDataFile(At("f")).ok());
}

TEST_F(DataFileTest, WhatTheUserNamedWrongly_IsADataError) {
  std::filesystem::create_directories(root_ / "folder");
  std::filesystem::create_symlink(root_, root_ / "link");
  Write("f", "content");
  for (const char* path :
       {"missing", "folder", "link/f", "../f", "f/below", "folder/../../f", "/etc/hostname", "/", ""}) {
    EXPECT_EQ(ReasonOf(OpenDataFile(At(path)).status()), "DATA_ERROR") << path;
  }
  EXPECT_EQ(ReasonOf(OpenDataFile(At("f", "no-root")).status()), "DATA_ERROR");
}

// Tests of ReadRights on files whose mode bits the test sets. The mode bits decide, even if the test is run by root,
// who may read every file.
class SharedFilesTest : public DataFolderTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root_ / "sets" / "deep");
    Write("sets/deep/f", "content");
    Chmod("sets", 0755);
    Chmod("sets/deep", 0755);
    Chmod("sets/deep/f", 0644);
  }
  void TearDown() override { Chmod("sets", 0755); }
  void Chmod(const std::string& path, mode_t mode) { ASSERT_EQ(chmod((root_ / path).c_str(), mode), 0); }

  // Opens the file and returns the error message, "" if there is none.
  std::string ErrorOf(std::optional<gid_t> group = std::nullopt) {
    DataFile file = At("sets/deep/f");
    file.rights = {.shared_only = true, .group = group};
    const absl::Status status = OpenDataFile(file).status();
    EXPECT_EQ(ReasonOf(status), status.ok() ? "" : "DATA_ERROR") << status;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(root_.string())));
    return std::string(status.message());
  }
  gid_t Group() {
    struct stat status = {};
    EXPECT_EQ(stat((root_ / "sets/deep/f").c_str(), &status), 0);
    return status.st_gid;
  }
};

TEST_F(SharedFilesTest, FileThatOthersMayRead_IsOpened) {
  EXPECT_EQ(ErrorOf(), "");
  Chmod("sets/deep/f", 0604);
  EXPECT_EQ(ErrorOf(), "");
  Chmod("sets/deep/f", 0004);
  EXPECT_EQ(ErrorOf().find("others may not"), std::string::npos);
}

TEST_F(SharedFilesTest, FileThatOthersMayNotRead_IsRefusedWithTheChmodThatHelps) {
  for (const mode_t mode : {0600, 0640, 0660, 0700, 0711, 0772}) {
    Chmod("sets/deep/f", mode);
    EXPECT_THAT(ErrorOf(), HasSubstr("sets/deep/f: others may not read it (mode 0")) << std::oct << mode;
    EXPECT_THAT(ErrorOf(), HasSubstr("; in its data root: chmod o+r sets/deep/f"));
  }
  EXPECT_THAT(ErrorOf(), HasSubstr("(mode 0772)"));
}

TEST_F(SharedFilesTest, EveryFolderBeneathTheRoot_MustBeOpenToSearch) {
  for (const char* folder : {"sets", "sets/deep"}) {
    for (const mode_t mode : {0700, 0750, 0776}) {
      Chmod(folder, mode);
      EXPECT_THAT(ErrorOf(), HasSubstr(absl::StrCat("others may not enter its folder ", folder, " (mode 0")));
      EXPECT_THAT(ErrorOf(), HasSubstr(absl::StrCat("chmod o+x ", folder)));
    }
    Chmod(folder, 0711);
    EXPECT_EQ(ErrorOf(), "") << "a list of the folder is not needed";
  }
  Chmod(".", 0700);
  EXPECT_EQ(ErrorOf(), "") << "the root is its owner's choice";
}

TEST_F(SharedFilesTest, FileOfTheDataGroup_IsOpenedWhereTheGroupMayReadIt) {
  const gid_t group = Group();
  Chmod("sets", 0750);
  Chmod("sets/deep", 0710);
  Chmod("sets/deep/f", 0640);
  EXPECT_EQ(ErrorOf(group), "");
  EXPECT_THAT(ErrorOf(group + 1), HasSubstr("others may not enter its folder sets"));
  Chmod("sets/deep/f", 0600);
  EXPECT_THAT(ErrorOf(group),
              HasSubstr("chmod o+r sets/deep/f, or chmod g+r sets/deep/f for the group of --data-group"));
  Chmod("sets", 0755);
  Chmod("sets/deep", 0755);
  EXPECT_THAT(ErrorOf(group + 1), HasSubstr(absl::StrCat("chmod o+r sets/deep/f, or chgrp ", group + 1,
                                                         " sets/deep/f and chmod g+r sets/deep/f")));
}

TEST_F(SharedFilesTest, WhoeverLooksAtTheirOwnFiles_NeedsNoMoreThanTheirOwnRights) {
  Chmod("sets", 0700);
  Chmod("sets/deep/f", 0600);
  EXPECT_TRUE(OpenDataFile(At("sets/deep/f")).ok());
}

}  // namespace
}  // namespace ampd::data
