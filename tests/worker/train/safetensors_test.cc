#include "worker/train/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "worker/train/safetensors_json.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string WithLength(const std::string& json, const std::string& data = "") {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(json.size() >> (8 * i)));
  }
  return out + json + data;
}

std::string ErrorOf(const std::string& json, const std::string& data = "") {
  return std::string(ParseSafetensors(WithLength(json, data)).status().message());
}

std::string TwoTensors() {
  const SafetensorsHeader header = {.tensors = {{.name = "fc.weight", .dtype = "F32", .shape = {2, 1}},
                                                {.name = "n\"ü", .dtype = "I64", .shape = {}}},
                                    .metadata = {{"format", "pt"}, {"tab", "\t"}}};
  return *EncodeSafetensorsHeader(header) + "AAAABBBBCCCCCCCC";
}

TEST(Safetensors, WhatIsWritten_IsReadBack) {
  const std::string bytes = TwoTensors();
  const auto file = ParseSafetensors(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_THAT(file->header.tensors, SizeIs(2));
  EXPECT_EQ(file->header.tensors[0], (TensorEntry{"fc.weight", "F32", {2, 1}, 0, 8}));
  EXPECT_EQ(file->header.tensors[1], (TensorEntry{"n\"ü", "I64", {}, 8, 16}));
  EXPECT_EQ(file->header.metadata.at("tab"), "\t");
  EXPECT_EQ(file->data, "AAAABBBBCCCCCCCC");
  EXPECT_EQ((bytes.size() - file->data.size()) % 8, 0u);
}

TEST(Safetensors, EveryTruncationAndATrailingByte_AreRefused) {
  const std::string bytes = TwoTensors();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(ParseSafetensors(bytes.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_THAT(std::string(ParseSafetensors(bytes + "x").status().message()), HasSubstr("bytes follow"));
}

TEST(Safetensors, AHeaderLengthBeyondTheLimitOrTheFile_IsRefused) {
  EXPECT_THAT(std::string(ParseSafetensors("\xff\xff\xff\xff\xff\xff\xff\xff{}").status().message()),
              HasSubstr("18446744073709551615 bytes in a file of 10"));
  EXPECT_THAT(ErrorOf("{}" + std::string(1 << 20, ' ')), HasSubstr("a header of"));
}

TEST(Safetensors, HolesOverlapsAndWrongSizes_AreRefused) {
  const auto tensor = [](const char* name, const char* shape, int begin, int end) {
    return absl::StrCat("\"", name, "\":{\"dtype\":\"U8\",\"shape\":", shape, ",\"data_offsets\":[", begin, ",", end,
                        "]}");
  };
  EXPECT_EQ(ErrorOf("{" + tensor("a", "[2]", 0, 2) + "," + tensor("b", "[2]", 2, 4) + "}", "1234"), "");
  for (const std::string& second : {tensor("b", "[1]", 3, 4), tensor("b", "[3]", 1, 4), tensor("b", "[3]", 2, 4),
                                    tensor("b", "[2]", 4, 2), tensor("b", "[9]", 2, 11)}) {
    EXPECT_THAT(ErrorOf("{" + tensor("a", "[2]", 0, 2) + "," + second + "}", "1234"), HasSubstr("tensor b")) << second;
  }
  EXPECT_THAT(ErrorOf("{" + tensor("a", "[4294967296,4294967296,2]", 0, 0) + "}"), HasSubstr("impossible shape"));
}

TEST(Safetensors, UnknownOrRepeatedContent_IsRefused) {
  const std::string good = "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]";
  EXPECT_EQ(ErrorOf("{\"a\":{" + good + "}}  "), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"a\":{" + good + "},\"a\":{" + good + "}}", "occurs twice"},
      {"{\"a\":{" + good + ",\"x\":1}}", "unknown key"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", "needs dtype"},
      {"{\"a\":{\"dtype\":\"Q8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "unknown dtype"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", "whole number"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,0]}}", "whole number"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0,0,0,0,0,0,0,0,0],\"data_offsets\":[0,0]}}", "more than 8"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,99999999999999999999]}}", "too large"},
      {"{\"a\\n\":{" + good + "}}", "control characters"},
      {"{\"" + std::string(257, 'n') + "\":{" + good + "}}", "too long"},
      {"{\"\":{" + good + "}}", "empty"},
      {"{\"\xff\":{" + good + "}}", "not UTF-8"},
      {"{\"\\ud800\":{" + good + "}}", "surrogate"},
      {"{\"__metadata__\":{\"k\":1}}", "expected '\"'"},
      {"{} {}", "follows the header's object"},
      {" {}", "expected '{'"},
      {"[]", "expected '{'"},
  };
  for (const auto& [json, error] : cases) {
    EXPECT_THAT(ErrorOf(json), HasSubstr(error)) << json;
  }
}

TEST(Safetensors, Escapes_AreDecoded) {
  const auto header = ParseSafetensorsJson("{\"__metadata__\":{\"k\":\"\\u00e4\\ud83d\\ude00\\n\\\\\"}}");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("k"), "ä😀\n\\");
}

TEST(Safetensors, OverlongAndSurrogateUtf8_AreRefused) {
  EXPECT_TRUE(IsUtf8("aä€😀"));
  for (const char* text : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    EXPECT_FALSE(IsUtf8(text));
  }
}

TEST(Safetensors, TensorsThatCantBeStored_AreRefusedWhenWriting) {
  EXPECT_FALSE(EncodeSafetensorsHeader({.tensors = {{.name = "a", .dtype = "F31"}}}).ok());
  EXPECT_FALSE(EncodeSafetensorsHeader({.tensors = {{.name = "a", .dtype = "U8"}, {.name = "a", .dtype = "U8"}}}).ok());
  EXPECT_FALSE(EncodeSafetensorsHeader({.tensors = {{.name = "a\x01", .dtype = "U8"}}}).ok());
}

// Whatever the bytes, parsing ends with a verdict, and what is accepted lies inside the data. Run under ASan too.
TEST(Safetensors, RandomDamage_NeverGivesTensorsOutsideTheData) {
  const uint64_t seed = 20240607;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const std::string whole = TwoTensors();
  int num_accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (uint64_t edit = random() % 4; edit < 4; ++edit) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto file = ParseSafetensors(bytes);
    if (file.ok()) {
      ++num_accepted;
      for (const TensorEntry& tensor : file->header.tensors) {
        ASSERT_LE(tensor.begin, tensor.end);
        ASSERT_LE(tensor.end, file->data.size());
      }
    }
  }
  EXPECT_GT(num_accepted, 0);
}

}  // namespace
}  // namespace ampd::train
