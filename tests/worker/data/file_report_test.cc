#include "worker/data/file_report.h"

#include <gmock/gmock.h>
#include <zip.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/worker/data/data_folder.h"
#include "tests/worker/data/npy_bytes.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Idx(char kind, const std::string& extents, const std::string& bytes) {
  return absl::StrCat(std::string("\0\0\x08", 3), std::string(1, kind), extents, bytes);
}

std::string U32(char value) { return std::string(3, '\0') + value; }

std::string NpyOf(const char* descr, const char* shape, const std::string& elements) {
  return Npy(absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }"), elements);
}

class FileReportTest : public DataFolderTest {
 protected:
  v1::DatasetFile Inspect(const std::string& content) {
    Write("f", content);
    const auto report = InspectFile(At("f"));
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(v1::DatasetFile());
  }
};

TEST_F(FileReportTest, IdxImages_HaveRangeMeanAndDeviation) {
  const std::string images = Idx(3, U32(2) + U32(1) + U32(2), std::string("\x00\xff\x00\xff", 4));
  for (const bool gzip : {false, true}) {
    const v1::DatasetFile report = Inspect(gzip ? Gzip(images) : images);
    EXPECT_EQ(report.format(), v1::DatasetFile::IDX);
    EXPECT_EQ(report.gzip(), gzip);
    EXPECT_THAT(report.problems(), IsEmpty());
    ASSERT_EQ(report.arrays_size(), 1);
    EXPECT_EQ(report.arrays(0).name(), "images");
    EXPECT_EQ(report.arrays(0).dtype(), "uint8");
    EXPECT_THAT(report.arrays(0).shape(), ElementsAre(2, 1, 2));
    EXPECT_EQ(report.arrays(0).min(), 0);
    EXPECT_EQ(report.arrays(0).max(), 255);
    EXPECT_THAT(report.arrays(0).mean(), ElementsAre(0.5));
    EXPECT_THAT(report.arrays(0).std(), ElementsAre(0.5));
  }
}

TEST_F(FileReportTest, Labels_AreCountedByClass) {
  const v1::DatasetFile report = Inspect(Idx(1, U32(4), std::string("\x02\x00\x02\x02", 4)));
  EXPECT_EQ(report.format(), v1::DatasetFile::IDX);
  EXPECT_EQ(report.size_bytes(), 12);
  EXPECT_THAT(report.arrays(0).class_counts(), ElementsAre(1, 0, 3));
  EXPECT_THAT(report.arrays(0).mean(), IsEmpty());
}

TEST_F(FileReportTest, Cifar_IsKnownByItsSize) {
  const std::string pixels = std::string(1024, '\xff') + std::string(1024, '\0') + std::string(1024, '\x33');
  const v1::DatasetFile ten = Inspect(std::string("\3") + pixels + "\1" + pixels);
  EXPECT_EQ(ten.format(), v1::DatasetFile::CIFAR10);
  EXPECT_THAT(ten.arrays(0).shape(), ElementsAre(2, 3, 32, 32));
  EXPECT_THAT(ten.arrays(0).mean(), ElementsAre(1, 0, testing::DoubleNear(0.2, 1e-12)));
  EXPECT_THAT(ten.arrays(0).std(), ElementsAre(0, 0, 0));
  EXPECT_THAT(ten.arrays(1).class_counts(), ElementsAre(0, 1, 0, 1));
  const v1::DatasetFile hundred = Inspect(Gzip(std::string("\x01\x02", 2) + pixels));
  EXPECT_EQ(hundred.format(), v1::DatasetFile::CIFAR100);
  EXPECT_EQ(hundred.arrays(1).name(), "labels");
  EXPECT_THAT(hundred.arrays(1).class_counts(), ElementsAre(0, 0, 1));
  EXPECT_EQ(hundred.arrays(2).name(), "coarse labels");
  EXPECT_THAT(hundred.arrays(2).class_counts(), ElementsAre(0, 1));
}

TEST_F(FileReportTest, CifarLabelBeyondItsClasses_IsAProblem) {
  const v1::DatasetFile report = Inspect(std::string(1, '\x0a') + std::string(3072, '\0'));
  EXPECT_EQ(report.format(), v1::DatasetFile::CIFAR10);
  EXPECT_THAT(report.problems(), ElementsAre("f: label 10 of sample 0 is not below 10"));
}

TEST_F(FileReportTest, ChannelsOfNumpysImages_AreTheDimensionOfAtMostFour) {
  const std::string pixels = std::string("\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff", 10);
  EXPECT_THAT(Inspect(NpyOf("|u1", "(1, 2, 1, 5)", pixels)).arrays(0).mean(),
              ElementsAre(testing::DoubleNear(0.4, 1e-12), testing::DoubleNear(0.6, 1e-12)));
  EXPECT_THAT(Inspect(NpyOf("|u1", "(1, 5, 1, 2)", pixels)).arrays(0).mean(), ElementsAre(0, 1));
}

TEST_F(FileReportTest, AnArrayOfNothing_MayHaveAnyOtherSizes) {
  const v1::DatasetFile report = Inspect(NpyOf("|u1", "(0, 1, 1099511627776, 1099511627776)", ""));
  ASSERT_EQ(report.arrays_size(), 1);
  EXPECT_FALSE(report.arrays(0).has_min());
}

TEST_F(FileReportTest, NumbersThatAreNotFinite_AreCountedAndAProblem) {
  const float numbers[] = {1, -3, std::numeric_limits<float>::infinity(), NAN};
  std::string bytes(sizeof(numbers), '\0');
  std::memcpy(bytes.data(), numbers, sizeof(numbers));
  const v1::DatasetFile report = Inspect(NpyOf("<f4", "(2, 2)", bytes));
  EXPECT_EQ(report.format(), v1::DatasetFile::NPY);
  EXPECT_EQ(report.arrays(0).min(), -3);
  EXPECT_EQ(report.arrays(0).max(), 1);
  EXPECT_EQ(report.arrays(0).num_not_finite(), 2);
  EXPECT_THAT(report.arrays(0).mean(), ElementsAre(-1));
  EXPECT_THAT(report.problems(), ElementsAre("f: array \"array\" has 2 elements that are not finite"));
}

TEST_F(FileReportTest, NegativeNumbers_AreNoClasses) {
  EXPECT_THAT(Inspect(NpyOf("|i1", "(2,)", "\x01\xff")).arrays(0).class_counts(), IsEmpty());
}

TEST_F(FileReportTest, EveryArrayOfAnArchive_IsReported) {
  zip_t* archive = zip_open((root_ / "f").c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  const std::string good = NpyOf("<i2", "(2, 1)", std::string("\x01\x00\x01\x00", 4));
  const std::string bad = "no array";
  for (const auto& [name, content] : {std::pair("y.npy", &good), std::pair("x.npy", &bad)}) {
    ASSERT_GE(zip_file_add(archive, name, zip_source_buffer(archive, content->data(), content->size(), 0), 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
  const auto report = InspectFile(At("f"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->format(), v1::DatasetFile::NPZ);
  ASSERT_EQ(report->arrays_size(), 1);
  EXPECT_EQ(report->arrays(0).name(), "y");
  EXPECT_THAT(report->arrays(0).class_counts(), ElementsAre(0, 2));
  EXPECT_THAT(report->problems(), ElementsAre(HasSubstr("array \"x\": not an array of NumPy")));
}

TEST_F(FileReportTest, EveryTensorOfASafetensorsFile_IsReported) {
  const std::string header =
      R"({"y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}})";
  const v1::DatasetFile report =
      Inspect(absl::StrCat(std::string(1, static_cast<char>(header.size())), std::string(7, '\0'), header, "\1\1ab"));
  EXPECT_EQ(report.format(), v1::DatasetFile::SAFETENSORS);
  ASSERT_EQ(report.arrays_size(), 1);
  EXPECT_EQ(report.arrays(0).name(), "y");
  EXPECT_THAT(report.arrays(0).class_counts(), ElementsAre(0, 2));
  EXPECT_THAT(report.problems(), ElementsAre(HasSubstr("f: tensor \"w\": of dtype BF16")));
}

TEST_F(FileReportTest, TokensUnderAHeaderOfLlmC_AreCounted) {
  std::string header("\x88\xd8\x34\x01\x01\0\0\0\x03\0\0\0", 12);
  header.resize(1024, '\0');
  const v1::DatasetFile report = Inspect(header + std::string("\x05\x00\x01\x02\x07\x00", 6));
  EXPECT_EQ(report.format(), v1::DatasetFile::LLM_C_TOKENS);
  EXPECT_THAT(report.problems(), IsEmpty());
  ASSERT_EQ(report.arrays_size(), 1);
  EXPECT_EQ(report.arrays(0).dtype(), "uint16");
  EXPECT_THAT(report.arrays(0).shape(), ElementsAre(3));
  EXPECT_EQ(report.arrays(0).min(), 5);
  EXPECT_EQ(report.arrays(0).max(), 0x201);
  EXPECT_THAT(Inspect(header + "abcd").problems(), ElementsAre(HasSubstr("tells of 3 tokens")));
}

TEST_F(FileReportTest, DamagedFileOfAKnownFormat_HasTheReadersWords) {
  EXPECT_THAT(Inspect(Idx(1, U32(4), "ab")).problems(), ElementsAre("f: the file ends after 2 of 4 bytes of samples"));
  EXPECT_THAT(Inspect(NpyOf("<f4", "(2,)", "abc")).problems(), ElementsAre(HasSubstr("ends after 3 of 8")));
  const std::string packed = Gzip(Idx(1, U32(4), std::string("\1\2\3\4")));
  const v1::DatasetFile cut = Inspect(packed.substr(0, packed.size() - 4));
  EXPECT_EQ(cut.format(), v1::DatasetFile::IDX);
  EXPECT_THAT(cut.problems(), ElementsAre("f: the gzip stream is cut off"));
}

TEST_F(FileReportTest, FilesOfNoKnownFormat_AreDataErrors) {
  for (const std::string& content : {std::string(), std::string("hello"), Gzip("hello"), std::string(3072, 'x')}) {
    Write("f", content);
    const absl::Status status = InspectFile(At("f")).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR");
    EXPECT_THAT(std::string(status.message()), HasSubstr("f: of no format that is known by its content"));
  }
  EXPECT_EQ(ReasonOf(InspectFile(At("missing")).status()), "DATA_ERROR");
}

}  // namespace
}  // namespace ampd::data
