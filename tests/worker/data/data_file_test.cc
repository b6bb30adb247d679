#include "worker/data/data_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "base/error.h"
#include "tests/worker/data/data_folder.h"
#include "worker/data/byte_stream.h"

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

// The kernel's own file that opens and cannot be read: nothing is mapped at address 0.
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
  for (const char* path : {"missing", "folder", "link/f", "../f", "f/below"}) {
    EXPECT_EQ(ReasonOf(OpenDataFile(At(path)).status()), "DATA_ERROR") << path;
  }
  EXPECT_EQ(ReasonOf(OpenDataFile(At("f", "no-root")).status()), "DATA_ERROR");
}

}  // namespace
}  // namespace ampd::data
