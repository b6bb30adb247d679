#include "base/formats/json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/formats/checkpoint_manifest.h"

namespace ampd {
namespace {

TEST(ParseJson, SoundJson_IsTaken) {
  const auto json = ParseJson(R"({"a": [{"a": 1}, {"a": 2}], "b": {"a": {"b": 3}}})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"][1]["a"], 2);
  EXPECT_EQ((*json)["b"]["a"]["b"], 3);
  EXPECT_EQ(*ParseJson("7"), 7);
}

TEST(ParseJson, AKeyThatAnObjectHasTwice_IsNamed) {
  for (const char* text : {R"({"x": 1, "x": 1})", R"([{"y": {"x": 1, "z": 2, "x": 3}}])", R"({"x": 1, "\u0078": 2})",
                           R"({"x": {"x": 1}, "y": 2, "x": 3})"}) {
    const absl::Status status = ParseJson(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << text;
    EXPECT_EQ(std::string(status.message()), "has the key \"x\" twice in an object") << text;
  }
}

TEST(ParseJson, WhatIsNoJson_IsInvalid) {
  for (const char* text : {"", "{", "{\"a\": 1", "[1,]", "{\"a\": 1} {", "\xff", "{\"x\": 1, \"x\": 2"}) {
    EXPECT_EQ(ParseJson(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseJson, AByteOfZero_IsNamedByItsPlace) {
  using std::string_literals::operator""s;
  for (const std::string& text : {"{\"a\":1}\0"s, "{\"a\":1}\0{\"a\":2}"s, "[1,2,3]\0no JSON at all"s}) {
    const absl::Status status = ParseJson(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(std::string(status.message()), "is no JSON from byte 8 on: that byte has the value 0") << text;
  }
  EXPECT_EQ(*ParseJson(R"("\u0000")"), "\0"s) << "an escaped zero is a character";
}

TEST(ParseManifest, WhatIsNotOneJsonText_IsNoManifest) {
  CheckpointManifest manifest;
  manifest.files["model.safetensors"] = {.sha256 = "ab", .size_bytes = 1};
  const std::string sound = WriteManifest(manifest);
  ASSERT_TRUE(ParseManifest(sound).ok()) << ParseManifest(sound).status();
  const absl::Status behind = ParseManifest(sound + std::string(4, '\0')).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(behind.message()), "is not JSON, so it is not the manifest of a checkpoint; was it cut off?");
  const absl::Status twice = ParseManifest("{\"step\":7," + sound.substr(1)).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(twice.message()),
            "is not the manifest of a checkpoint: it has the key \"step\" twice in an object");
}

}  // namespace
}  // namespace ampd
