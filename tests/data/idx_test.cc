#include "data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string BigEndianU32(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// The content of an IDX file with 3 images of 2 x 2 pixels, whose values are 0 to 11.
std::string Images() {
  std::string content = absl::StrCat(BigEndianU32(0x803), BigEndianU32(3), BigEndianU32(2), BigEndianU32(2));
  for (char pixel = 0; pixel < 12; ++pixel) {
    content.push_back(pixel);
  }
  return content;
}

std::string Labels() { return absl::StrCat(BigEndianU32(0x801), BigEndianU32(3), std::string("\x00\x02\x01", 3)); }

class IdxTest : public DataFolderTest {
 protected:
  absl::Status ImagesStatus(const std::string& content, int64_t limit = 0) {
    Write("f", content);
    return ReadIdxImages(At("f"), limit).status();
  }
};

TEST_F(IdxTest, PlainAndGzip_GiveTheSameImages) {
  Write("plain", Images());
  Write("packed", Gzip(Images()));
  for (const char* name : {"plain", "packed"}) {
    const auto images = ReadIdxImages(At(name), 0);
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_EQ(images->count, 3);
    EXPECT_EQ(images->rows, 2);
    EXPECT_EQ(images->columns, 2);
    EXPECT_THAT(images->pixels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  }
}

TEST_F(IdxTest, Limit_TakesTheFirstSamples) {
  Write("images", Images());
  Write("labels", Gzip(Labels()));
  EXPECT_THAT(ReadIdxImages(At("images"), 1)->pixels, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*ReadIdxLabels(At("labels"), 2, 3), ElementsAre(0, 2));
  EXPECT_THAT(*ReadIdxLabels(At("labels"), 9, 3), ElementsAre(0, 2, 1));
}

TEST_F(IdxTest, EveryTruncation_IsADataErrorThatNamesTheFile) {
  for (const std::string& whole : {Images(), Gzip(Images())}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      const absl::Status status = ImagesStatus(whole.substr(0, size));
      EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << size << " of " << whole.size() << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("f: "));
    }
  }
}

TEST_F(IdxTest, TrailingBytes_AreRefused) {
  EXPECT_THAT(std::string(ImagesStatus(Images() + "x").message()), HasSubstr("bytes follow the last sample"));
  EXPECT_THAT(std::string(ImagesStatus(Gzip(Images() + "x")).message()), HasSubstr("bytes follow the last sample"));
  EXPECT_THAT(std::string(ImagesStatus(Gzip(Images()) + "x").message()), HasSubstr("bytes follow the gzip stream"));
}

TEST_F(IdxTest, EveryFlippedBitOfTheGzipContent_IsRefusedOrChangesNothing) {
  const std::string whole = Gzip(Images());
  int num_refused = 0;
  // The test flips bits from byte 10 on, because bytes 4 to 9 of a gzip header (time, flags, system) do not affect the
  // content. The last byte before the 8 bytes of the trailer may have up to 7 bits of padding.
  for (size_t bit = size_t{10} * 8; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    Write("f", damaged);
    const auto images = ReadIdxImages(At("f"), 0);
    if (images.ok()) {
      EXPECT_EQ(bit / 8, whole.size() - 9) << "bit " << bit;
      EXPECT_THAT(images->pixels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    } else {
      EXPECT_EQ(ReasonOf(images.status()), "DATA_ERROR") << "bit " << bit;
      ++num_refused;
    }
  }
  EXPECT_GE(num_refused, static_cast<int>(whole.size() - 10) * 8 - 7);
}

TEST_F(IdxTest, WrongMagic_IsNamed) {
  EXPECT_THAT(std::string(ImagesStatus(Labels()).message()), HasSubstr("0x00000801"));
}

TEST_F(IdxTest, HeaderThatClaimsTooMuch_IsRefusedWithoutTheMemory) {
  const std::string huge =
      absl::StrCat(BigEndianU32(0x803), BigEndianU32(0xffffffff), BigEndianU32(0xffffffff), BigEndianU32(0xffffffff));
  EXPECT_THAT(std::string(ImagesStatus(huge).message()), HasSubstr("more than 4294967296 bytes"));
  const std::string large =
      absl::StrCat(BigEndianU32(0x803), BigEndianU32(1 << 20), BigEndianU32(32), BigEndianU32(32), "abc");
  EXPECT_THAT(std::string(ImagesStatus(large).message()), HasSubstr("ends after 3 of 1073741824"));
}

TEST_F(IdxTest, LabelOutOfRange_NamesLabelAndSample) {
  Write("labels", Labels());
  const absl::Status status = ReadIdxLabels(At("labels"), 0, 2).status();
  EXPECT_EQ(ReasonOf(status), "DATA_ERROR");
  EXPECT_EQ(status.message(), "labels: label 2 of sample 1 is not below 2");
}

TEST_F(IdxTest, PathsThatLeaveTheRoot_AreRefused) {
  std::filesystem::create_directory(root_ / "in");
  Write("secret", Images());
  std::filesystem::create_symlink(root_ / "secret", root_ / "in" / "link");
  ASSERT_EQ(mkfifo((root_ / "in" / "fifo").c_str(), 0600), 0);
  for (const std::string& path : {std::string("../secret"), std::string("link"), (root_ / "secret").string(),
                                  std::string("fifo"), std::string("."), std::string("missing")}) {
    const absl::Status status = ReadIdxImages(At(path, "in"), 0).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  EXPECT_EQ(ReadIdxImages(At("link", "in"), 0).status().message(),
            "link: it is a symbolic link, or one is on the way; none is followed");
  EXPECT_EQ(ReadIdxImages(At("../secret", "in"), 0).status().message(), "../secret: it leads out of its data root");
  EXPECT_THAT(std::string(ReadIdxImages(At("missing", "in"), 0).status().message()), Not(HasSubstr(root_.string())));
}

}  // namespace
}  // namespace ampd::data
