#include "base/formats/json.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace ampd
