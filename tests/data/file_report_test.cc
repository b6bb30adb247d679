#include "data/file_report.h"

#include <gmock/gmock.h>
#include <zip.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/data/data_folder.h"
#include "tests/data/npy_bytes.h"

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

// Jobs refuse such arrays, whether they are images, labels or fields.
TEST_F(FileReportTest, AnArrayWithoutAnElement_IsAProblem) {
  EXPECT_THAT(Inspect(NpyOf("|u1", "(0, 28, 28)", "")).problems(),
              ElementsAre("f: array \"array\" of shape (0, 28, 28) has no element"));
  EXPECT_THAT(Inspect(NpyOf("<f4", "(3, 0)", "")).problems(),
              ElementsAre("f: array \"array\" of shape (3, 0) has no element"));
  std::string header("\x88\xd8\x34\x01\x01\0\0\0", 8);
  header.resize(1024, '\0');
  EXPECT_THAT(Inspect(header).problems(), ElementsAre("f: it has no token"));
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

// Jobs convert the numbers to float32.
TEST_F(FileReportTest, NumbersBeyondFloat32_AreNotFinite) {
  const double numbers[] = {1, -3, 1e300, -3.5e38, std::numeric_limits<float>::max()};
  std::string bytes(sizeof(numbers), '\0');
  std::memcpy(bytes.data(), numbers, sizeof(numbers));
  const v1::DatasetFile report = Inspect(NpyOf("<f8", "(5, 1)", bytes));
  EXPECT_EQ(report.arrays(0).num_not_finite(), 2);
  EXPECT_EQ(report.arrays(0).min(), -3);
  EXPECT_EQ(report.arrays(0).max(), std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(report.arrays(0).std(0)));
  EXPECT_THAT(
      report.problems(),
      ElementsAre("f: array \"array\" has 2 elements that are not finite in float32, the type in which jobs use them"));
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

// The file must be reported as damaged safetensors; otherwise it would pass as valid tokens.
TEST_F(FileReportTest, SafetensorsWithAWrongLength_IsAProblem) {
  const v1::DatasetFile report = Inspect(std::string("\xff\0\0\0\0\0\0\0", 8) + "{\"y\":{}}" + std::string(91, '\x7f'));
  EXPECT_EQ(report.format(), v1::DatasetFile::SAFETENSORS);
  EXPECT_THAT(report.problems(), ElementsAre(HasSubstr("a header of 255 bytes in a file of 107")));
}

TEST_F(FileReportTest, SafetensorsWithAHeaderThatIsNoObject_IsAProblem) {
  const v1::DatasetFile report = Inspect(std::string("\x10\0\0\0\0\0\0\0", 8) + "{no object, text}" + "ab");
  EXPECT_EQ(report.format(), v1::DatasetFile::SAFETENSORS);
  EXPECT_THAT(report.problems(), ElementsAre(HasSubstr("safetensors header")));
}

TEST_F(FileReportTest, NamesOfClasses_AreToldWhereTheMetadataHasThem) {
  const auto names_of = [&](const std::string& classes) {
    const std::string header = absl::StrCat(R"({"__metadata__":{"classes":")", classes,
                                            R"("},"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
    const v1::DatasetFile report =
        Inspect(absl::StrCat(std::string(1, static_cast<char>(header.size())), std::string(7, '\0'), header, "\1"));
    EXPECT_THAT(report.problems(), IsEmpty());
    EXPECT_EQ(report.arrays_size(), 1);
    return std::vector<std::string>(report.class_names().begin(), report.class_names().end());
  };
  EXPECT_THAT(names_of(R"([\"cat\", \"d\u006fg\"])"), ElementsAre("cat", "dog"));
  EXPECT_THAT(names_of("cat,dog"), IsEmpty());
  EXPECT_THAT(names_of(R"([\"cat\", 1])"), IsEmpty());
  EXPECT_THAT(names_of(R"({\"cat\": \"dog\"})"), IsEmpty());
  EXPECT_THAT(names_of("[[[["), IsEmpty());
  EXPECT_THAT(names_of(R"([\"cat\"]\u0000, \"dog\"])"), IsEmpty()) << "a byte of the value 0 ends no text";
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

TEST_F(FileReportTest, FilesThatAreLikeJsonLines_AreWhatTheyWere) {
  std::string picture = std::string("\x09{\x80", 3);  // The label is a tab character; pixels follow.
  picture.resize(3073, '\x7f');
  EXPECT_EQ(Inspect(picture).format(), v1::DatasetFile::CIFAR10);
  std::string header = R"({"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize('{', ' ');
  EXPECT_EQ(Inspect(absl::StrCat(std::string("{\0\0\0\0\0\0\0", 8), header, "a")).format(),
            v1::DatasetFile::SAFETENSORS);
  const std::string text = "{\"input_ids\": [1], \"label\": 0}";
  const v1::DatasetFile of_size = Inspect(text + std::string(3073 - text.size(), ' '));
  EXPECT_EQ(of_size.format(), v1::DatasetFile::JSONL) << "of CIFAR's size by chance";
  EXPECT_THAT(of_size.problems(), IsEmpty());
}

TEST_F(FileReportTest, DamagedFileOfAKnownFormat_HasTheReadersWords) {
  EXPECT_THAT(Inspect(Idx(1, U32(4), "ab")).problems(), ElementsAre("f: the file ends after 2 of 4 bytes of samples"));
  EXPECT_THAT(Inspect(NpyOf("<f4", "(2,)", "abc")).problems(), ElementsAre(HasSubstr("ends after 3 of 8")));
  const std::string packed = Gzip(Idx(1, U32(4), std::string("\1\2\3\4")));
  const v1::DatasetFile cut = Inspect(packed.substr(0, packed.size() - 4));
  EXPECT_EQ(cut.format(), v1::DatasetFile::IDX);
  EXPECT_THAT(cut.problems(), ElementsAre("f: the gzip stream is cut off"));
}

TEST_F(FileReportTest, ANameThatIsNotUtf8_IsShownInProblemsWithoutTheWrongBytes) {
  const DataFile file = {.root = root_, .path = "f", .name = "caf\xe9.npy"};
  Write("f", NpyOf("<f4", "(2,)", "abc"));
  EXPECT_THAT(InspectFile(file)->problems(), ElementsAre(HasSubstr("caf?.npy: the file ends after 3 of 8 bytes")));
  Write("f", NpyOf("<f4", "(0,)", ""));
  EXPECT_THAT(InspectFile(file)->problems(), ElementsAre(HasSubstr("caf?.npy: array \"array\" of shape (0)")));
  Write("f", "abc");
  EXPECT_THAT(InspectTokens(file, TokenFormat::kUint16)->problems(), ElementsAre(HasSubstr("caf?.npy: has 3 bytes")));
}

// The files of this test have sizes of CIFAR files. A file counts as CIFAR, with a problem, if only few of its labels
// are out of range, but not if most are.
TEST_F(FileReportTest, FilesOfCifarsSize_AreCifarsWhereTheirLabelsAre) {
  std::string tokens(4 * 3073, '\0');
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<char>(i * i % 251);
  }
  EXPECT_EQ(Inspect(tokens).format(), v1::DatasetFile::UINT16_TOKENS);
  const std::string pixels(3072, '\x55');
  const v1::DatasetFile one_wrong = Inspect("\3" + pixels + "\x0a" + pixels);
  EXPECT_EQ(one_wrong.format(), v1::DatasetFile::CIFAR10);
  EXPECT_THAT(one_wrong.problems(), ElementsAre("f: label 10 of sample 1 is not below 10"));
  std::string idx("\0\0\x08\x01\0\0\x0b\xf9", 8);
  idx.resize(3073, '\1');
  EXPECT_EQ(Inspect(idx).format(), v1::DatasetFile::IDX);
  const std::string dark("\0\0\x08\x01\0\0\0\1", 8);
  EXPECT_EQ(Inspect(dark + std::string(3065, '\0')).format(), v1::DatasetFile::CIFAR10) << "no sizes of IDX";
}

TEST_F(FileReportTest, TokensWithoutAHeader_AreToldByTheirNumbers) {
  std::vector<uint32_t> wide(1000);
  std::vector<uint16_t> narrow(1000);
  for (uint32_t i = 0; i < 1000; ++i) {
    wide[i] = i * 7919 % 50257;
    narrow[i] = static_cast<uint16_t>(wide[i]);
  }
  const v1::DatasetFile of_wide = Inspect({reinterpret_cast<const char*>(wide.data()), 4000});
  EXPECT_EQ(of_wide.format(), v1::DatasetFile::UINT32_TOKENS);
  EXPECT_THAT(of_wide.arrays(0).shape(), ElementsAre(1000));
  EXPECT_THAT(of_wide.notes(), ElementsAre(HasSubstr("read as tokens of 32 bits without a header")));
  EXPECT_THAT(of_wide.problems(), IsEmpty());
  const v1::DatasetFile of_narrow = Inspect({reinterpret_cast<const char*>(narrow.data()), 2000});
  EXPECT_EQ(of_narrow.format(), v1::DatasetFile::UINT16_TOKENS);
  EXPECT_THAT(of_narrow.arrays(0).shape(), ElementsAre(1000));
  const auto told = InspectTokens(At("f"), TokenFormat::kUint32);
  EXPECT_THAT(told->notes(), ElementsAre(HasSubstr("and looks like tokens of 16 bits")));
}

TEST_F(FileReportTest, FilesOfNoKnownFormat_AreDataErrors) {
  const std::pair<std::string, const char*> cases[] = {
      {"hello", "it begins as if it were text"},
      {Gzip("hello"), "it begins as if it were text"},
      {std::string(3072, 'x'), "text"},
      {"[" + std::string(300, ' ') + "]", "JSON, a list; jsonl reads an object a line"},
      {"\x89PNG\r\n\x1a\n", "a PNG picture"},
      {"PAR1" + std::string(100, '\1'), "a Parquet file"},
      {std::string(4096, '\0'), "all of it is 0, which may be of any width"},
      {std::string("\1\0\2", 3), "has 3 bytes, no whole number of tokens"},
  };
  for (const auto& [content, why] : cases) {
    Write("f", content);
    const absl::Status status = InspectFile(At("f")).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << why;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("f: of no format that is known by its content: ", why, ";")));
  }
  EXPECT_EQ(ReasonOf(InspectFile(At("missing")).status()), "DATA_ERROR");
  Write("f", "");
  EXPECT_THAT(std::string(InspectFile(At("f")).status().message()), HasSubstr("f: is empty: it has 0 bytes"));
}

}  // namespace
}  // namespace ampd::data
