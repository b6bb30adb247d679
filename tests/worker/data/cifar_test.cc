#include "worker/data/cifar.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/worker/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

// Every pixel of the record is `pixel`, but the last one, which is 255.
std::string Record(const std::string& labels, char pixel) {
  return absl::StrCat(labels, std::string(kCifarPixelBytes - 1, pixel), "\xff");
}

class CifarTest : public DataFolderTest {
 protected:
  std::string ErrorOf(const std::string& content, CifarLabels labels = CifarLabels::kTen, int64_t num_classes = 100) {
    Write("f", content);
    const absl::Status status = ReadCifar({At("f")}, labels, 0, num_classes).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
    return std::string(status.message());
  }
};

TEST_F(CifarTest, FilesAreOneBehindTheOther_PlainOrGzip) {
  Write("one", Record("\x03", 1) + Record("\x09", 2));
  Write("two", Gzip(Record(std::string(1, '\0'), 7)));
  const auto images = ReadCifar({At("one"), At("two")}, CifarLabels::kTen, 0, 10);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_THAT(images->labels, ElementsAre(3, 9, 0));
  ASSERT_EQ(images->pixels.size(), 3u * kCifarPixelBytes);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(images->pixels[i * kCifarPixelBytes], i == 2 ? 7 : i + 1);
    EXPECT_EQ(images->pixels[(i + 1) * kCifarPixelBytes - 1], 255);
  }
}

TEST_F(CifarTest, HundredClasses_HaveACoarseAndAFineLabel) {
  Write("f", Record("\x13\x63", 5) + Record("\x01\x02", 6));
  const auto fine = ReadCifar({At("f")}, CifarLabels::kHundredFine, 0, 100);
  const auto coarse = ReadCifar({At("f")}, CifarLabels::kHundredCoarse, 0, 100);
  ASSERT_TRUE(fine.ok() && coarse.ok()) << fine.status() << coarse.status();
  EXPECT_THAT(fine->labels, ElementsAre(99, 2));
  EXPECT_THAT(coarse->labels, ElementsAre(19, 1));
  EXPECT_EQ(fine->pixels, coarse->pixels);
  EXPECT_EQ(fine->pixels[kCifarPixelBytes], 6);
}

TEST_F(CifarTest, Limit_TakesTheFirstSamplesOfAllFiles) {
  Write("one", Record("\x03", 1) + Record("\x04", 2));
  Write("two", Record("\x05", 1) + "cut off");
  EXPECT_THAT(ReadCifar({At("one"), At("two")}, CifarLabels::kTen, 1, 10)->labels, ElementsAre(3));
  EXPECT_THAT(ReadCifar({At("one"), At("two")}, CifarLabels::kTen, 3, 10)->labels, ElementsAre(3, 4, 5));
}

TEST_F(CifarTest, Truncation_NamesTheRecord) {
  const std::string whole = Record("\x03", 1) + Record("\x04", 2);
  EXPECT_EQ(ErrorOf(""), "f: the file ends after 0 of 3073 bytes of record 0: it is empty");
  EXPECT_EQ(ErrorOf(whole.substr(0, 3072)), "f: the file ends after 3072 of 3073 bytes of record 0");
  EXPECT_EQ(ErrorOf(whole.substr(0, 3074)), "f: the file ends after 1 of 3073 bytes of record 1");
  EXPECT_EQ(ErrorOf(whole + "x"), "f: the file ends after 1 of 3073 bytes of record 2");
  EXPECT_EQ(ErrorOf(Gzip(whole).substr(0, 20)), "f: the gzip stream is cut off");
}

TEST_F(CifarTest, LabelBeyondTheClasses_NamesLabelAndSample) {
  EXPECT_EQ(ErrorOf(Record("\x03", 1) + Record("\x0a", 2)), "f: label 10 of sample 1 is not below 10");
  EXPECT_EQ(ErrorOf(Record("\x03", 1), CifarLabels::kTen, 3), "f: label 3 of sample 0 is not below 3");
  EXPECT_EQ(ErrorOf(Record("\x14\x02", 1), CifarLabels::kHundredCoarse), "f: label 20 of sample 0 is not below 20");
  EXPECT_EQ(ErrorOf(Record("\x02\x64", 1), CifarLabels::kHundredFine, 1000),
            "f: label 100 of sample 0 is not below 100");
}

}  // namespace
}  // namespace ampd::data
