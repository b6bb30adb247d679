#include "base/formats/zip_archive.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/failing_reads.h"

namespace ampd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Entry {
  std::string name;
  std::string content;
  int method = ZIP_CM_DEFLATE;
};

class ZipArchiveTest : public testing::Test {
 protected:
  ZipArchiveTest() : path_(std::filesystem::path(testing::TempDir()) / "zip_archive_test.zip") {}
  ~ZipArchiveTest() override { std::filesystem::remove(path_); }

  void Write(const std::vector<Entry>& entries, const char* password = nullptr) {
    zip_t* const archive = zip_open(path_.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    for (const Entry& entry : entries) {
      zip_source_t* const content = zip_source_buffer(archive, entry.content.data(), entry.content.size(), 0);
      const int64_t index = zip_file_add(archive, entry.name.c_str(), content, 0);
      ASSERT_GE(index, 0);
      ASSERT_EQ(zip_set_file_compression(archive, index, entry.method, 0), 0);
      if (password != nullptr) {
        ASSERT_EQ(zip_file_set_encryption(archive, index, ZIP_EM_AES_256, password), 0);
      }
    }
    ASSERT_EQ(zip_close(archive), 0);
  }
  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void WriteBytes(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  absl::StatusOr<ZipArchive> Open(int64_t max_entries = 10) {
    return ZipArchive::Open(UniqueFd(open(path_.c_str(), O_RDONLY | O_CLOEXEC)), max_entries);
  }
  // Returns the content of the archive's entry `name`, or the error message.
  std::string Read(const std::string& name, int64_t max_bytes = 1 << 20) {
    const auto archive = Open();
    if (!archive.ok()) {
      return std::string(archive.status().message());
    }
    const auto content = archive->ReadEntry(archive->Find(name).value(), max_bytes);
    return content.ok() ? *content : std::string(content.status().message());
  }

  const std::filesystem::path path_;
};

TEST_F(ZipArchiveTest, EntriesAreReadByTheirNames) {
  const std::string large(200'000, 'x');
  Write({{"a/b", "one"}, {"c", large, ZIP_CM_STORE}, {"empty", ""}});
  EXPECT_THAT(Open()->names(), ElementsAre("a/b", "c", "empty"));
  EXPECT_EQ(Open()->Find("b"), std::nullopt);
  EXPECT_EQ(Read("a/b"), "one");
  EXPECT_EQ(Read("c"), large);
  EXPECT_EQ(Read("empty"), "");
}

TEST_F(ZipArchiveTest, AHostThatCantReadIt_IsNotTheArchivesFault) {
  Write({{"stored", std::string(200'000, 'x'), ZIP_CM_STORE}, {"last", "one"}});
  const auto archive = Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  ASSERT_EQ(BreakReads(path_), 1);
  const auto content = archive->ReadEntry(0, 1 << 20);
  EXPECT_EQ(content.status(), absl::UnavailableError("Input/output error"));
}

TEST_F(ZipArchiveTest, WhatIsUnpackedIsBounded) {
  std::string zeros;
  zeros.resize(10'000'000);
  Write({{"bomb", zeros}});
  EXPECT_LT(Bytes().size(), 100'000u);
  EXPECT_EQ(Read("bomb"), "more than 1048576 bytes");
  EXPECT_TRUE(absl::IsResourceExhausted(Open()->ReadEntry(0, 1 << 20).status()));
  EXPECT_EQ(Read("bomb", 10'000'000).size(), 10'000'000u);
}

TEST_F(ZipArchiveTest, TheStartOfAnEntryIsReadAndNoMore) {
  std::string zeros;
  zeros.resize(10'000'000);
  Write({{"bomb", zeros}, {"short", "one"}});
  const auto archive = Open();
  EXPECT_EQ(archive->ReadStart(0, 5)->size(), 5u);
  EXPECT_LT(archive->ReadStart(0, 5)->capacity(), 1u << 20);
  EXPECT_EQ(archive->ReadStart(0, 10'000'000)->size(), 10'000'000u);
  EXPECT_EQ(*archive->ReadStart(1, 2), "on");
  EXPECT_EQ(*archive->ReadStart(1, 3), "one");
  EXPECT_EQ(*archive->ReadStart(1, int64_t{1} << 40), "one");
}

TEST_F(ZipArchiveTest, AStartThatIsAllOfTheEntryIsVerified) {
  Write({{"a", "one two", ZIP_CM_STORE}});
  std::string bytes = Bytes();
  bytes[bytes.find("two")] = 'T';
  WriteBytes(bytes);
  EXPECT_TRUE(absl::IsDataLoss(Open()->ReadStart(0, 7).status()));
}

TEST_F(ZipArchiveTest, AnEntrysSizeIsThatOfItsContent) {
  const std::string large(300'000, 'x');
  Write({{"packed", large}, {"stored", large, ZIP_CM_STORE}, {"empty", ""}});
  const auto archive = Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  for (const size_t index : {0U, 1U}) {
    EXPECT_EQ(*archive->SizeUpTo(index, 1 << 20), 300'000);
    EXPECT_EQ(*archive->SizeUpTo(index, 100'000), 100'000);
  }
  EXPECT_EQ(*archive->SizeUpTo(2, 1), 0);
}

TEST_F(ZipArchiveTest, ManyEntriesAreRefused) {
  Write({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  EXPECT_EQ(Open(2).status().message(), "3 entries in the archive; at most 2");
  EXPECT_TRUE(Open(3).ok());
}

// Encodes `number` in `size` bytes, little-endian.
std::string Little(uint64_t number, size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i, number >>= 8) {
    bytes.push_back(static_cast<char>(number & 0xff));
  }
  return bytes;
}

// The archive's end record claims that its directory has a gigabyte. The reader refuses the archive because of this
// number, without reading the directory.
TEST_F(ZipArchiveTest, LargeDirectoriesAreRefusedByTheRecordsThatTellOfThem) {
  Write({{"a", "1"}});
  constexpr size_t kRecordBytes = 22;
  const std::string sound = Bytes();
  std::string claims = sound;
  claims.replace(claims.size() - kRecordBytes + 12, 4, Little(1 << 30, 4));
  WriteBytes(claims);
  EXPECT_EQ(Open().status().message(), "a directory of 1073741824 bytes in the archive; at most 1048576");
  const auto with_large_record = [&sound](uint64_t num_entries, uint64_t num_bytes) {
    const size_t end = sound.size() - kRecordBytes;
    return sound.substr(0, end) + "PK\6\6" + Little(44, 8) + Little(0, 12) + Little(num_entries, 8) +
           Little(num_entries, 8) + Little(num_bytes, 8) + Little(0, 8) + "PK\6\7" + Little(0, 4) + Little(end, 8) +
           Little(1, 4) + sound.substr(end);
  };
  WriteBytes(with_large_record(1'000'000'000, 1));
  EXPECT_EQ(Open().status().message(), "1000000000 entries in the archive; at most 10");
  WriteBytes(with_large_record(1, uint64_t{1} << 40));
  EXPECT_EQ(Open().status().message(), "a directory of 1099511627776 bytes in the archive; at most 1048576");
}

TEST_F(ZipArchiveTest, BytesThatOnlyLookLikeARecordAreNone) {
  Write({{"a", "PK\5\6" + std::string(60, '\xff'), ZIP_CM_STORE}});
  EXPECT_TRUE(Open().ok()) << Open().status();
}

TEST_F(ZipArchiveTest, EncryptedAndOddlyCompressedEntriesAreRefused) {
  Write({{"a", "1"}}, "secret");
  EXPECT_EQ(Read("a"), "encrypted, or compressed by another method than deflate");
  Write({{"a", std::string(1000, 'a'), ZIP_CM_BZIP2}});
  EXPECT_EQ(Read("a"), "encrypted, or compressed by another method than deflate");
}

TEST_F(ZipArchiveTest, ChangedContentIsFoundByItsChecksum) {
  Write({{"a", "content", ZIP_CM_STORE}});
  std::string bytes = Bytes();
  bytes[bytes.find("content")] = 'C';
  WriteBytes(bytes);
  EXPECT_THAT(Read("a"), HasSubstr("CRC"));
}

TEST_F(ZipArchiveTest, AFileCutAnywhereIsRefused) {
  Write({{"a", "content", ZIP_CM_STORE}, {"b", "more"}});
  const std::string bytes = Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    WriteBytes(bytes.substr(0, size));
    EXPECT_FALSE(Open().ok() && Read("a") == "content" && Read("b") == "more") << size;
  }
}

}  // namespace
}  // namespace ampd
