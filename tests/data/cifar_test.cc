#include "data/cifar.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

// Returns a CIFAR record with these labels. All of its pixels are `pixel`, except the last, which is 255.
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
  EXPECT_EQ(ErrorOf(whole.substr(0, 3075)), "f: the file ends after 2 of 3073 bytes of record 1");
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

// All pixels are 0, which is also a valid label. So only the file's size reveals that the reader expects the wrong
// format.
TEST_F(CifarTest, AFileOfTheOtherFormat_IsToldByItsSize) {
  const std::string hundred = std::string(2, '\3') + std::string(kCifarPixelBytes, '\0');
  const std::string ten = std::string(1, '\3') + std::string(kCifarPixelBytes, '\0');
  for (const bool gzip : {false, true}) {
    for (const int64_t limit : {0, 1}) {
      Write("f", gzip ? Gzip(hundred + hundred) : hundred + hundred);
      EXPECT_EQ(std::string(ReadCifar({At("f")}, CifarLabels::kTen, limit, 10).status().message()),
                "f: has 6148 bytes, no whole number of records of 3073 but of 3074: set variant to CIFAR100_FINE or "
                "CIFAR100_COARSE");
      Write("f", gzip ? Gzip(ten + ten) : ten + ten);
      EXPECT_EQ(std::string(ReadCifar({At("f")}, CifarLabels::kHundredFine, limit, 100).status().message()),
                "f: has 6146 bytes, no whole number of records of 3074 but of 3073: set variant to CIFAR10");
    }
  }
}

TEST_F(CifarTest, AFileOfAnotherFormat_IsRefusedThoughItHasTheSize) {
  const std::string idx = std::string("\0\0\x08\x01\0\0\x0b\xf9", 8) + std::string(3065, '\1');
  EXPECT_EQ(ErrorOf(idx), "f: it is an IDX file, as MNIST's are, not records of CIFAR");
  EXPECT_EQ(ErrorOf(std::string(3073, '\t')), "f: it is text, not records of CIFAR");
}

// A limit makes the reader return fewer samples. The reader still checks the labels of all samples, to detect that a
// file is not a CIFAR file.
TEST_F(CifarTest, AFileWhoseOtherLabelsAreWrong_IsRefusedWithALimitToo) {
  std::string content = Record("\x03", 1);
  for (int i = 0; i < 3; ++i) {
    content += Record("\xff", 1);
  }
  Write("f", content);
  const absl::Status status = ReadCifar({At("f")}, CifarLabels::kTen, 1, 10).status();
  EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
}

}  // namespace
}  // namespace ampd::data
