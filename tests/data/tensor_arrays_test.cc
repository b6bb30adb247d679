#include "data/tensor_arrays.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A safetensors file with a tensor x of 2 x 3 bytes, followed by a tensor y of this dtype and size.
std::string File(const std::string& y_dtype, int y_bytes) {
  const std::string header =
      absl::StrCat("{\"y\":{\"dtype\":\"", y_dtype, "\",\"shape\":[2],\"data_offsets\":[6,", 6 + y_bytes,
                   "]},\"x\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}");
  return absl::StrCat(std::string(1, static_cast<char>(header.size())), std::string(7, '\0'), header, "abcdef",
                      std::string(y_bytes, '\1'));
}

class TensorArraysTest : public DataFolderTest {
 protected:
  absl::StatusOr<Array> Read(const std::string& content, const std::string& name, int64_t limit = 0) {
    Write("f", content);
    const auto file = TensorArrays::Open(At("f"));
    return file.ok() ? file->Read(name, limit) : file.status();
  }
  std::string ErrorOf(const std::string& content, const std::string& name = "y") {
    const absl::Status status = Read(content, name).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
    return std::string(status.message());
  }
};

TEST_F(TensorArraysTest, EachTensor_IsReadByName) {
  const auto x = Read(File("I16", 4), "x");
  ASSERT_TRUE(x.ok()) << x.status();
  EXPECT_EQ(x->type, ElementType::kUint8);
  EXPECT_THAT(x->shape, ElementsAre(2, 3));
  EXPECT_THAT(x->bytes, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(Read(File("I16", 4), "x", 1)->bytes, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(Read(File("I16", 4), "y")->bytes, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(TensorArrays::Open(At("f"))->names(), ElementsAre("x", "y"));
}

TEST_F(TensorArraysTest, EveryTypeOfData_IsKnown_AndOthersAreNamed) {
  const std::pair<const char*, ElementType> types[] = {
      {"BOOL", ElementType::kBool},   {"U8", ElementType::kUint8},    {"I8", ElementType::kInt8},
      {"I16", ElementType::kInt16},   {"I32", ElementType::kInt32},   {"I64", ElementType::kInt64},
      {"F16", ElementType::kFloat16}, {"F32", ElementType::kFloat32}, {"F64", ElementType::kFloat64}};
  for (const auto& [code, type] : types) {
    const auto array = Read(File(code, static_cast<int>(2 * ElementBytes(type))), "y");
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->type, type) << code;
  }
  EXPECT_THAT(ErrorOf(File("BF16", 4)), HasSubstr("f: tensor \"y\": of dtype BF16; data may be BOOL, U8, I8"));
}

TEST_F(TensorArraysTest, MissingTensor_IsNamedWithThoseThatAreThere) {
  EXPECT_EQ(ErrorOf(File("I16", 4), "images"), "f: it has no tensor \"images\"; it has x, y");
}

TEST_F(TensorArraysTest, EveryTruncationAndTrailingBytes_AreDataErrors) {
  const std::string whole = File("I16", 4);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ErrorOf(whole.substr(0, size)), HasSubstr("f: ")) << size;
  }
  EXPECT_THAT(ErrorOf(whole + "x"), HasSubstr("f: "));
}

TEST_F(TensorArraysTest, FileThatShrinksAfterItWasOpened_IsADataError) {
  Write("f", File("I16", 4));
  const auto file = TensorArrays::Open(At("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate((root_ / "f").c_str(), static_cast<off_t>(File("I16", 4).size()) - 1), 0);
  EXPECT_EQ(file->Read("y", 0).status().message(), "f: tensor \"y\": the file ends after 3 of 4 bytes of samples");
}

}  // namespace
}  // namespace ampd::data
