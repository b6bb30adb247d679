#include "data/npy.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "tests/data/data_folder.h"
#include "tests/data/npy_bytes.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }";

class NpyTest : public DataFolderTest {
 protected:
  absl::StatusOr<Array> Read(const std::string& content, int64_t limit = 0) {
    Write("f", content);
    return ReadNpy(At("f"), limit);
  }
  std::string ErrorOf(const std::string& content) {
    const absl::Status status = Read(content).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
    return std::string(status.message());
  }
  // Reads an .npy file with this header and six bytes of elements, and returns the error message.
  std::string ErrorOfDict(const std::string& dict) { return ErrorOf(Npy(dict, "abcdef")); }
};

TEST_F(NpyTest, EveryVersion_PlainOrGzip_GivesShapeAndElements) {
  for (const int version : {1, 2, 3}) {
    for (const bool gzip : {false, true}) {
      const std::string content = Npy(kDict, "abcdef", version);
      const auto array = Read(gzip ? Gzip(content) : content);
      ASSERT_TRUE(array.ok()) << array.status();
      EXPECT_EQ(array->type, ElementType::kUint8);
      EXPECT_THAT(array->shape, ElementsAre(2, 3));
      EXPECT_THAT(array->bytes, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
    }
  }
}

TEST_F(NpyTest, EveryElementType_IsKnownByItsCode) {
  const std::pair<const char*, ElementType> types[] = {{"|b1", ElementType::kBool},    {"|u1", ElementType::kUint8},
                                                       {"<u1", ElementType::kUint8},   {"|i1", ElementType::kInt8},
                                                       {"<i2", ElementType::kInt16},   {"<i4", ElementType::kInt32},
                                                       {"<i8", ElementType::kInt64},   {"<f2", ElementType::kFloat16},
                                                       {"<f4", ElementType::kFloat32}, {"<f8", ElementType::kFloat64}};
  for (const auto& [code, type] : types) {
    const std::string dict = absl::StrCat("{'descr': '", code, "', 'fortran_order': False, 'shape': (1,), }");
    const auto array = Read(Npy(dict, std::string(ElementBytes(type), '\0')));
    ASSERT_TRUE(array.ok()) << code << ": " << array.status();
    EXPECT_EQ(array->type, type) << code;
  }
}

TEST_F(NpyTest, ScalarsAndEmptyArrays_AreArrays) {
  EXPECT_THAT(Read(Npy(absl::StrReplaceAll(kDict, {{"(2, 3)", "()"}}), "a"))->shape, IsEmpty());
  EXPECT_THAT(Read(Npy(absl::StrReplaceAll(kDict, {{"(2, 3)", "(0, 3)"}}), ""))->bytes, IsEmpty());
}

TEST_F(NpyTest, VectorInFortranOrder_IsTheSameInBoth) {
  EXPECT_THAT(Read(Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }", "ab"))->bytes,
              ElementsAre('a', 'b'));
}

TEST_F(NpyTest, Limit_TakesTheFirstSamples) {
  const auto array = Read(Npy(kDict, "abcdef"), 1);
  EXPECT_THAT(array->shape, ElementsAre(1, 3));
  EXPECT_THAT(array->bytes, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(Read(Npy(kDict, "abcdef"), 9)->shape, ElementsAre(2, 3));
}

TEST_F(NpyTest, EveryTruncation_IsADataErrorThatNamesTheFile) {
  const std::string whole = Npy(kDict, "abcdef");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ErrorOf(whole.substr(0, size)), HasSubstr("f: the file ends ")) << size;
  }
  EXPECT_EQ(ErrorOf(whole + "x"), "f: bytes follow the last sample");
}

TEST_F(NpyTest, HostileBeginnings_AreNamed) {
  EXPECT_EQ(ErrorOf("PK\x03\x04 and so on"), "f: not an array of NumPy: it does not begin with \\x93NUMPY");
  EXPECT_EQ(ErrorOf(Npy(kDict, "abcdef", 4)), "f: format version 4.0; it may be 1.0, 2.0 or 3.0");
  EXPECT_EQ(ErrorOf(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)),
            "f: a header of 4294967295 bytes; at most 10000");
}

TEST_F(NpyTest, HostileHeaders_AreNamed) {
  EXPECT_THAT(ErrorOfDict(""), HasSubstr("the header is not what NumPy writes, at byte"));
  EXPECT_THAT(ErrorOfDict("{}"), HasSubstr("does not have all of"));
  EXPECT_THAT(ErrorOfDict("{'descr': '|u1', 'shape': (6,)}"), HasSubstr("does not have all of"));
  EXPECT_THAT(ErrorOfDict("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (6,)}"),
              HasSubstr("has the key 'descr' twice"));
  EXPECT_THAT(ErrorOfDict("{'descr': '|u1', 'fortran_order': False, 'shape': (6,), 'more': 1}"),
              HasSubstr("the key 'more'"));
  for (const char* wrong :
       {"{'descr': '|u1', 'fortran_order': 0, 'shape': (6,)}", "{'descr': '|u1', 'fortran_order': False, 'shape': (6)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': [6]}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-6,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6,,)}",
        "{'descr': '|u\\x31', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6,)} + {}",
        "{'descr': '|u1' 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6,"}) {
    EXPECT_THAT(ErrorOfDict(wrong), HasSubstr("the header is not what NumPy writes, at byte")) << wrong;
  }
}

TEST_F(NpyTest, ElementsThatAreNoPlainNumbers_AreRefusedByName) {
  const auto with = [&](const char* descr) {
    return ErrorOfDict(absl::StrCat("{'descr': ", descr, ", 'fortran_order': False, 'shape': (6,), }"));
  };
  EXPECT_THAT(with("'>f4'"), HasSubstr("dtype '>f4', which is big-endian"));
  for (const char* descr : {"'|O'", "'<U5'", "'|b2'", "'<c8'", "'<f16'", "'=i4'", "'<M8[ns]'", "''"}) {
    EXPECT_THAT(with(descr), HasSubstr("it may be b1, u1, i1, i2")) << descr;
  }
  EXPECT_THAT(with("[('a', '<f4')]"), HasSubstr("a structured array"));
}

TEST_F(NpyTest, FortranOrder_IsRefusedByName) {
  EXPECT_EQ(ErrorOfDict("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }"),
            "f: in Fortran order; store it with numpy.ascontiguousarray");
}

TEST_F(NpyTest, ShapesThatClaimTooMuch_AreRefusedWithoutTheMemory) {
  const auto with = [&](const char* shape) {
    return ErrorOfDict(absl::StrCat("{'descr': '<f8', 'fortran_order': False, 'shape': ", shape, ", }"));
  };
  EXPECT_EQ(with("(4294967296, 4294967296)"), "f: float64 of (4294967296, 4294967296) are more than 4294967296 bytes");
  EXPECT_EQ(with("(1152921504606846976, 16)"),
            "f: float64 of (1152921504606846976, 16) are more than 4294967296 bytes");
  EXPECT_THAT(with("(99999999999999999999,)"), HasSubstr("an extent of the shape is out of range"));
  EXPECT_EQ(with("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "f: 9 dimensions; at most 8");
  EXPECT_EQ(with("(536870912,)"), "f: the file ends after 6 of 4294967296 bytes of samples");
}

TEST(HalfToFloat, IsExactOverTheWholeRange) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc500), -5.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x83ff), -1023 * 0x1p-24f);
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7c01)));
}

}  // namespace
}  // namespace ampd::data
