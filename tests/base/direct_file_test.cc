#include "base/io/direct_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace ampd {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

// Each test runs twice: on a disk, and on an in-memory file system, which may not support O_DIRECT.
class DirectFileTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string parent = std::string_view(GetParam()) == "disk" ? testing::TempDir() : "/dev/shm";
    std::string pattern = parent + "/direct-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      GTEST_SKIP() << "SKIPPED: no folder can be made in " << parent;
    }
    folder_ = pattern;
  }
  void TearDown() override {
    if (!folder_.empty()) {
      std::filesystem::remove_all(folder_);
    }
  }
  std::string Path() const { return folder_ / "file"; }

  std::filesystem::path folder_;
};

INSTANTIATE_TEST_SUITE_P(On, DirectFileTest, testing::Values("disk", "memory"),
                         [](const auto& test) { return std::string(test.param); });

// The test appends pieces of random sizes, most of which do not end at a block boundary.
TEST_P(DirectFileTest, WhateverItsSize_ItHoldsWhatWasAppended) {
  constexpr uint64_t kSeed = 20260102;
  SeededRandom random(kSeed);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{4096}, 8 * kMegabyte - 1, 8 * kMegabyte, 8 * kMegabyte + 1,
                             16 * kMegabyte + 4096, 17 * kMegabyte + 4095}) {
    SCOPED_TRACE(absl::StrCat(size, " bytes, seed ", kSeed));
    std::string content(static_cast<size_t>(size), '\0');
    for (char& byte : content) {
      byte = static_cast<char>(random.Next());
    }
    auto file = DirectFile::Create(Path(), size);
    ASSERT_TRUE(file.ok()) << file.status();
    for (std::string_view left = content; !left.empty();) {
      const std::string_view piece = left.substr(0, random.Next() % (3 * kMegabyte));
      ASSERT_TRUE(file->Append(piece).ok());
      left.remove_prefix(piece.size());
    }
    const absl::Status synced = file->Sync();
    ASSERT_TRUE(synced.ok()) << synced;
    const auto read = ReadFile(Path(), 2 * size + 1);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == content);
    std::filesystem::remove(Path());
  }
}

TEST_P(DirectFileTest, AFileThatIsThere_IsLeftAlone) {
  ASSERT_TRUE(WriteFileAtomically(Path(), "before").ok());
  for (const int64_t size : {int64_t{6}, 9 * kMegabyte}) {
    EXPECT_TRUE(absl::IsAlreadyExists(DirectFile::Create(Path(), size).status())) << size;
  }
  EXPECT_EQ(ReadFile(Path(), 100).value_or("nothing"), "before");
}

TEST_P(DirectFileTest, WithoutRoom_TheErrorComesBeforeAnythingIsWritten) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit = {16 * kMegabyte, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = DirectFile::Create(Path(), 17 * kMegabyte).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(status.message(), "fallocate: File too large");
}

}  // namespace
}  // namespace ampd
