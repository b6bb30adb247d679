#include "base/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "base/formats/safetensors_json.h"

namespace ampd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
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
  EXPECT_THAT(std::string(ParseSafetensors(bytes + "x").status().message()), HasSubstr("1 bytes follow"));
}

TEST(Safetensors, AHeaderLengthBeyondTheLimitOrTheFile_IsRefused) {
  EXPECT_THAT(std::string(ParseSafetensors("\xff\xff\xff\xff\xff\xff\xff\xff{}").status().message()),
              HasSubstr("18446744073709551615 bytes in a file of 10"));
  EXPECT_THAT(ErrorOf("{}" + std::string(1 << 20, ' ')), HasSubstr("a header of 1048578 bytes; at most 1048576"));
}

std::string Tensor(const char* name, const char* shape, int begin, int end, const char* dtype = "U8") {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape, ",\"data_offsets\":[", begin, ",",
                      end, "]}");
}

TEST(Safetensors, TensorsThatDontTileTheData_AreRefusedByNameAndNumbers) {
  EXPECT_EQ(ErrorOf("{" + Tensor("a", "[2]", 0, 2) + "," + Tensor("b", "[2]", 2, 4) + "}", "1234"), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Tensor("b", "[1]", 3, 4), "tensor \"b\": data_offsets [3, 4] leave a gap behind the tensor that ends at 2"},
      {Tensor("b", "[3]", 1, 4), "tensor \"b\": data_offsets [1, 4] overlap the tensor that ends at 2"},
      {Tensor("b", "[3]", 2, 4), "tensor \"b\": data_offsets [2, 4] hold 2 bytes; shape [3] of U8 takes 3"},
      {Tensor("b", "[1]", 2, 4, "F16"), ""},
      {Tensor("b", "[1, 2]", 2, 4, "F16"), "hold 2 bytes; shape [1, 2] of F16 takes 4"},
      {Tensor("b", "[2]", 4, 2), "tensor \"b\": data_offsets [4, 2] end before they begin"},
      {Tensor("b", "[9]", 2, 11), "tensor \"b\": data_offsets [2, 11] reach beyond the 4 bytes of data"},
      {Tensor("b", "[1]", 2, 3), "1 bytes follow the last tensor"},
      {Tensor("b", "[4294967296,4294967296,2]", 2, 4), "the impossible shape [4294967296, 4294967296, 2]"},
      {Tensor("b", "[2305843009213693952]", 2, 4, "F64"), "the impossible shape [2305843009213693952]"},
  };
  for (const auto& [second, error] : cases) {
    EXPECT_THAT(ErrorOf("{" + Tensor("a", "[2]", 0, 2) + "," + second + "}", "1234"),
                error.empty() ? Matcher<std::string>(IsEmpty()) : HasSubstr(error))
        << second;
  }
}

TEST(Safetensors, UnknownOrRepeatedContent_IsRefused) {
  const std::string good = "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]";
  EXPECT_EQ(ErrorOf("{\"a\":{" + good + "}}  "), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"a\":{" + good + "},\"a\":{" + good + "}}", "the key \"a\" occurs twice"},
      {"{\"a\":{" + good + ",\"x\":1}}", "the unknown key \"x\""},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", "needs dtype"},
      {"{\"a\":{\"dtype\":\"Q8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "tensor \"a\": unknown dtype \"Q8\""},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", "whole number"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,0]}}", "whole number"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0,0,0,0,0,0,0,0,0],\"data_offsets\":[0,0]}}", "more than 8"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,99999999999999999999]}}", "too large"},
      {"{\"a\\n\":{" + good + "}}", "tensor \"a\\n\": a name that is not UTF-8 or has control characters"},
      {"{\"a\\u009b\":{" + good + "}}", "control characters"},
      {"{\"" + std::string(300, 'q') + "\":{},\"" + std::string(300, 'q') + "\":{}}", "needs dtype"},
      {"{\"" + std::string(257, 'n') + "\":{" + good + "}}", "...\": a name of 257 bytes; at most 256"},
      {"{\"\":{" + good + "}}", "a tensor's name is empty"},
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

TEST(Safetensors, TheHeaderAlone_IsReadFromTheBeginningOfAFile) {
  const std::string bytes = TwoTensors();
  const auto whole = ParseSafetensors(bytes);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const uint64_t data_begin = whole->header.data_begin;
  EXPECT_EQ(bytes.substr(data_begin), whole->data);
  const auto header = ParseSafetensorsHeader(bytes.substr(0, data_begin), bytes.size());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors, whole->header.tensors);
  EXPECT_THAT(std::string(ParseSafetensorsHeader(bytes.substr(0, data_begin - 1), bytes.size()).status().message()),
              HasSubstr("ended inside its header"));
  EXPECT_FALSE(ParseSafetensorsHeader(bytes.substr(0, data_begin), bytes.size() - 1).ok());
  EXPECT_FALSE(ParseSafetensorsHeader(bytes.substr(0, data_begin), bytes.size() + 1).ok());
}

// Valid files that together have every dtype, empty tensors, scalars, metadata and escapes.
std::vector<std::string> ValidFiles() {
  std::vector<std::string> files = {TwoTensors(), WithLength("{}"), WithLength("{\"__metadata__\":{}}   ")};
  SafetensorsHeader all;
  std::string data;
  for (const char* dtype : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "I16", "U16", "F16", "BF16", "I32", "U32", "F32",
                            "I64", "U64", "F64"}) {
    const auto rows = static_cast<int64_t>(all.tensors.size() % 3);
    all.tensors.push_back({.name = absl::StrCat("layer.", dtype), .dtype = dtype, .shape = {rows, 2}});
    data.append(static_cast<size_t>(rows) * 2 * SafetensorsDtypeBytes(dtype), '\x01');
  }
  files.push_back(*EncodeSafetensorsHeader(all) + data);
  files.push_back(WithLength("{" + Tensor("b", "[ 2 ]", 2, 4) + " , " + Tensor("\\u00fc\\ud83d\\ude00", "[2,1]", 0, 2) +
                                 ",\"__metadata__\":{\"format\":\"pt\",\"\\\"\":\"\\n\"}}  ",
                             "1234"));
  return files;
}

// Checks that the tensors of a parsed file cover its data without gaps, and that the file has the same content
// after it was encoded and parsed again.
void ExpectConsistent(const SafetensorsFile& file) {
  uint64_t at = 0;
  for (const TensorEntry& tensor : file.header.tensors) {
    ASSERT_EQ(tensor.begin, at);
    at = tensor.end;
  }
  ASSERT_EQ(at, file.data.size());
  const auto header = EncodeSafetensorsHeader(file.header);
  ASSERT_TRUE(header.ok()) << header.status();
  const std::string anew = *header + std::string(file.data);
  const auto again = ParseSafetensors(anew);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->header.tensors, file.header.tensors);
  EXPECT_EQ(again->header.metadata, file.header.metadata);
}

std::string Mutated(std::string bytes, std::mt19937_64& random) {
  for (uint64_t edit = random() % 4; edit < 4; ++edit) {
    const size_t at = bytes.empty() ? 0 : random() % bytes.size();
    switch (random() % 5) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, random() % 9);
        break;
      case 3:
        bytes.insert(at, 1, "0123456789\"{}[],:\\ue"[random() % 21]);
        break;
      default:
        bytes.insert(at, bytes.substr(random() % (bytes.size() + 1), random() % 40));
    }
  }
  return bytes;
}

TEST(Safetensors, AFlippedBitOfAValidFile_IsAnErrorOrAConsistentFile) {
  for (const std::string& whole : ValidFiles()) {
    ASSERT_TRUE(ParseSafetensors(whole).ok());
    const uint64_t data_begin = ParseSafetensors(whole)->header.data_begin;
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string bytes = whole;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      const auto file = ParseSafetensors(bytes);
      ASSERT_TRUE(file.ok() || bit / 8 < data_begin) << "the data may be anything: " << file.status();
      if (file.ok()) {
        ExpectConsistent(*file);
      } else {
        ASSERT_TRUE(IsUtf8(std::string(file.status().message())));
      }
    }
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string bytes = whole.substr(0, size);  // A copy, so that AddressSanitizer detects a read past its end.
      ASSERT_FALSE(ParseSafetensors(bytes).ok()) << size;
    }
  }
}

// The test also runs in the build with AddressSanitizer, which detects reads past the end.
TEST(Safetensors, RandomEdits_GiveAnErrorOrAConsistentFile) {
  const uint64_t seed = 20240607;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> files = ValidFiles();
  int num_accepted = 0;
  int num_refused = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string bytes = Mutated(files[round % files.size()], random);
    if (round % 2 == 0 && bytes.size() >= 8) {  // Corrects the length, which would reveal most edits.
      const std::string data = TwoTensors().substr(bytes.size() % 2 == 0 ? 0 : TwoTensors().size() - 16);
      bytes = WithLength(bytes.substr(8), round % 4 == 0 ? "" : data);
    }
    const auto file = ParseSafetensors(bytes);
    num_accepted += file.ok() ? 1 : 0;
    num_refused += file.ok() ? 0 : 1;
    if (file.ok()) {
      ExpectConsistent(*file);
    } else {
      ASSERT_EQ(file.status().code(), absl::StatusCode::kDataLoss);
      ASSERT_TRUE(IsUtf8(std::string(file.status().message())));
    }
  }
  EXPECT_GT(num_accepted, 500);
  EXPECT_GT(num_refused, 500);
}

}  // namespace
}  // namespace ampd
