#include "base/io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/crc32c.h"

namespace ampd {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/file_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(FileTest, AtomicWriteReplacesAndLeavesNothingElse) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "one").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "two").ok());
  EXPECT_EQ(ReadFile(Path("a"), 10).value(), "two");
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "a");
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

TEST_F(FileTest, AtomicWriteThatFailsKeepsTheOldFile) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "one").ok());
  // A folder has the name of WriteFileAtomically's temporary file, so that the file can't be created.
  ASSERT_EQ(mkdir(Path("a.tmp").c_str(), 0700), 0);
  EXPECT_FALSE(WriteFileAtomically(Path("a"), "two").ok());
  EXPECT_EQ(ReadFile(Path("a"), 10).value(), "one");
}

TEST_F(FileTest, ReadFileRefusesMoreThanItsLimit) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "12345").ok());
  EXPECT_EQ(ReadFile(Path("a"), 5).value(), "12345");
  EXPECT_EQ(ReadFile(Path("a"), 4).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadFile(Path("missing"), 4).status().code(), absl::StatusCode::kNotFound);
}

TEST(ErrnoError, AFullDiskHasAReason) {
  EXPECT_EQ(ReasonOf(ErrnoError(ENOSPC, "write")), "DISK_FULL");
  EXPECT_EQ(WriteAll(UniqueFd(open("/dev/full", O_WRONLY | O_CLOEXEC)).get(), "x").code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Crc32c, EqualsTheStandardsCheckValue) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST_F(FileTest, Sha256EqualsTheStandardsExamples) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "abc").ok());
  EXPECT_EQ(Sha256OfFile(Path("a")).value(), Sha256Hex("abc"));
}

}  // namespace
}  // namespace ampd
