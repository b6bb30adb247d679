#include "base/io/pending_file.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <thread>

namespace ampd {
namespace {

class PendingFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/pending-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return folder_ / "file"; }
  std::string Content() const { return ReadFile(Path(), int64_t{1} << 30).value_or("nothing"); }
  auto NumFiles() const { return std::distance(std::filesystem::directory_iterator(folder_), {}); }

  std::filesystem::path folder_;
};

TEST_F(PendingFileTest, WhatIsAppended_IsThereOnceItIsCommitted) {
  auto file = PendingFile::Create(Path(), false);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string expected = "head";
  ASSERT_TRUE(file->Append("xxxx").ok());
  for (int i = 0; i < 50; ++i) {
    const std::string piece(static_cast<size_t>(i) * 3001, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(file->Append(piece).ok());
    expected += piece;
  }
  EXPECT_EQ(file->size(), static_cast<int64_t>(expected.size()));
  ASSERT_TRUE(file->Overwrite(0, "head").ok());
  ASSERT_TRUE(file->Append("tail").ok());
  EXPECT_FALSE(std::filesystem::exists(Path()));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Content(), expected + "tail");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(PendingFileTest, WhatIsNotCommitted_LeavesNothing) {
  {
    auto file = PendingFile::Create(Path(), false);
    ASSERT_TRUE(file->Append("content").ok());
    const PendingFile moved = *std::move(file);
    EXPECT_EQ(NumFiles(), 1);
  }
  EXPECT_EQ(NumFiles(), 0);
}

TEST_F(PendingFileTest, AFileThatIsThere_IsReplacedOnlyWhenAsked) {
  ASSERT_TRUE(WriteFileAtomically(Path(), "old").ok());
  EXPECT_EQ(PendingFile::Create(Path(), false).status().code(), absl::StatusCode::kAlreadyExists);
  auto file = PendingFile::Create(Path(), true);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("new").ok());
  EXPECT_EQ(Content(), "old");
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Content(), "new");
}

TEST_F(PendingFileTest, AFileThatCameMeanwhile_IsKept) {
  auto file = PendingFile::Create(Path(), false);
  ASSERT_TRUE(WriteFileAtomically(Path(), "of another").ok());
  EXPECT_EQ(file->Commit().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content(), "of another");
}

TEST_F(PendingFileTest, WhatIsNoRegularFile_IsNotReplaced) {
  EXPECT_EQ(PendingFile::Create(folder_, true).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PendingFile::Create(folder_ / "no" / "file", true).status().code(), absl::StatusCode::kNotFound);
}

// From now on, renameat2 with flags fails in this thread, as it does on NFS. Returns false if this process may not
// install the seccomp filter for that.
bool RefuseRenameFlags() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(PendingFileTest, OnAFileSystemWithoutTheFlag_AFreeNameIsGivenAndATakenOneKept) {
  const std::string from = folder_ / "from";
  std::thread([&] {
    ASSERT_TRUE(RefuseRenameFlags());
    ASSERT_TRUE(WriteFileAtomically(from, "content").ok());
    EXPECT_EQ(RenameToFreeName(from, Path()), absl::OkStatus());
    EXPECT_EQ(Content(), "content");
    EXPECT_EQ(NumFiles(), 1);
    ASSERT_TRUE(WriteFileAtomically(from, "other").ok());
    EXPECT_TRUE(absl::IsAlreadyExists(RenameToFreeName(from, Path())));
    EXPECT_EQ(Content(), "content");
    EXPECT_EQ(NumFiles(), 2);
  }).join();
}

}  // namespace
}  // namespace ampd
