#include "data/jsonl.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "tests/data/data_folder.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

constexpr JsonlLimits kLimits = {.max_tokens = 4, .vocabulary = 100, .num_types = 2, .num_classes = 3};

class JsonlTest : public DataFolderTest {
 protected:
  absl::StatusOr<Texts> Read(const std::string& content, const JsonlLimits& limits = kLimits) {
    Write("texts", content);
    return ReadJsonl(At("texts"), limits);
  }
  Texts Good(const std::string& content, const JsonlLimits& limits = kLimits) {
    auto texts = Read(content, limits);
    EXPECT_TRUE(texts.ok()) << texts.status();
    return std::move(texts).value_or(Texts());
  }
  std::string Bad(const std::string& content) {
    const absl::Status status = Read(content).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << content;
    return std::string(status.message());
  }
};

constexpr char kLine[] = "{\"input_ids\": [7, 99], \"label\": 1}";

TEST_F(JsonlTest, LinesAreReadAsTheyAreWritten) {
  const std::string content =
      absl::StrCat(kLine, "\n", " {\"label\":0,\"token_type_ids\":[0,1,1],\"input_ids\":[1,2,3]} \r\n", kLine);
  for (const bool gzip : {false, true}) {
    const Texts texts = Good(gzip ? Gzip(content) : content);
    EXPECT_THAT(texts.tokens, ElementsAre(7, 99, 1, 2, 3, 7, 99));
    EXPECT_THAT(texts.types, ElementsAre(0, 0, 0, 1, 1, 0, 0));
    EXPECT_THAT(texts.ends, ElementsAre(2, 5, 7));
    EXPECT_THAT(texts.labels, ElementsAre(1, 0, 1));
    EXPECT_EQ(texts.num_cut, 0);
  }
}

TEST_F(JsonlTest, LongTextsAreCutAndCounted) {
  const Texts texts = Good(
      "{\"input_ids\": [1, 2, 3, 4, 5], \"token_type_ids\": [0, 0, 0, 1, 1], \"label\": 2}\n"
      "{\"input_ids\": [6], \"label\": 0}\n");
  EXPECT_THAT(texts.tokens, ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(texts.types, ElementsAre(0, 0, 0, 1, 0));
  EXPECT_THAT(texts.ends, ElementsAre(4, 5));
  EXPECT_EQ(texts.num_cut, 1);
}

TEST_F(JsonlTest, BehindTheLimitNothingIsLookedAt) {
  JsonlLimits limits = kLimits;
  limits.limit = 2;
  EXPECT_THAT(Good(absl::StrCat(kLine, "\n", kLine, "\nnothing"), limits).labels, ElementsAre(1, 1));
  EXPECT_THAT(Good(absl::StrCat(kLine, "\n", kLine), limits).labels, ElementsAre(1, 1));
  EXPECT_THAT(Good(kLine, limits).labels, ElementsAre(1));
}

TEST_F(JsonlTest, WhatIsWrongIsNamedByItsLine) {
  const auto second = [this](const std::string& line) { return Bad(absl::StrCat(kLine, "\n", line, "\n")); };
  EXPECT_EQ(Bad(""), "texts: it has no line");
  EXPECT_EQ(second(""), "texts: line 2: no JSON from byte 1 on");
  EXPECT_EQ(second("{\"input_ids\": [1, 2}"), "texts: line 2: no JSON from byte 20 on");
  EXPECT_EQ(second(absl::StrCat(kLine, kLine)), "texts: line 2: no JSON from byte 35 on");
  EXPECT_EQ(second("[1]"), "texts: line 2: a list where the line's object is");
  EXPECT_EQ(second("7"), "texts: line 2: 7 where the line's object is");
  EXPECT_EQ(second("{\"label\": 1}"), "texts: line 2: input_ids is missing");
  EXPECT_EQ(second("{\"input_ids\": [1]}"), "texts: line 2: label is missing");
  EXPECT_EQ(second("{\"input_ids\": [], \"label\": 1}"), "texts: line 2: input_ids has no token");
  EXPECT_EQ(second("{\"input_ids\": 1, \"label\": 1}"),
            "texts: line 2: 1 where input_ids, a list of numbers from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [[1]], \"label\": 1}"),
            "texts: line 2: a list where input_ids, a list of numbers from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1, -1], \"label\": 1}"),
            "texts: line 2: -1 where input_ids, a list of numbers from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1.5], \"label\": 1}"),
            "texts: line 2: 1.5 where input_ids, a list of numbers from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": [1]}"),
            "texts: line 2: a list where label, a number from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": \"a\"}"),
            "texts: line 2: \"a\" where label, a number from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": null}"), "texts: line 2: null where label, a number from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": {}}"),
            "texts: line 2: an object where label, a number from 0 on, is");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": 1, \"label\": 1}"), "texts: line 2: label is there twice");
  EXPECT_EQ(second("{\"input_ids\": [1], \"text\": \"x\", \"label\": 1}"),
            "texts: line 2: \"text\" is no member of a line; input_ids, label and token_type_ids are");
  EXPECT_EQ(second("{\"input_ids\": [1, 100], \"label\": 1}"),
            "texts: line 2: input_ids[1] is 100; the model has 100 tokens in its vocabulary");
  EXPECT_EQ(second("{\"input_ids\": [1, 2, 3, 4, 100], \"label\": 1}"),
            "texts: line 2: input_ids[4] is 100; the model has 100 tokens in its vocabulary");
  EXPECT_EQ(second("{\"input_ids\": [1], \"token_type_ids\": [2], \"label\": 1}"),
            "texts: line 2: token_type_ids[0] is 2; the model has 2 types of tokens");
  EXPECT_EQ(second("{\"input_ids\": [1], \"token_type_ids\": [0, 0], \"label\": 1}"),
            "texts: line 2: token_type_ids has 2 numbers for 1 of input_ids");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": 3}"), "texts: line 2: label is 3; the model has 3 classes");
  EXPECT_EQ(second("{\"input_ids\": [1], \"label\": 99999999999999999999}"),
            "texts: line 2: 99999999999999999999 where label, a number from 0 on, is");
}

TEST_F(JsonlTest, AByteOfZero_IsNamedByItsPlace) {
  const size_t length = sizeof(kLine) - 1;
  for (const std::string& behind : {std::string(1, '\0'), std::string("\0, no JSON", 10), '\0' + std::string(kLine)}) {
    EXPECT_EQ(Bad(absl::StrCat(kLine, "\n", kLine, behind, "\n")),
              absl::StrCat("texts: line 2: no JSON from byte ", length + 1, " on: that byte has the value 0"));
  }
  EXPECT_EQ(Bad(std::string("\0", 1)), "texts: line 1: no JSON from byte 1 on: that byte has the value 0");
}

TEST_F(JsonlTest, WithoutAModel_NumbersAreHeldToWhatAnyModelCouldTake) {
  const auto of = [this](const std::string& tokens, const std::string& types, const std::string& label) {
    return Read(
        absl::StrCat("{\"input_ids\": [", tokens, "], \"token_type_ids\": [", types, "], \"label\": ", label, "}"),
        {.max_tokens = 4});
  };
  const auto most = of("4294967295", "255", "2147483646");
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_THAT(most->tokens, ElementsAre(4294967295));
  EXPECT_THAT(most->types, ElementsAre(255));
  EXPECT_THAT(most->labels, ElementsAre(2147483646));
  EXPECT_EQ(of("4294967296", "0", "0").status().message(),
            "texts: line 1: input_ids[0] is 4294967296; a job takes at most 4294967295");
  EXPECT_EQ(of("1", "256", "0").status().message(), "texts: line 1: token_type_ids[0] is 256; a job takes at most 255");
  EXPECT_EQ(of("1", "0", "2147483647").status().message(),
            "texts: line 1: label is 2147483647; a job takes at most 2147483646");
}

// A token type is stored in 8 bits.
TEST_F(JsonlTest, AModelOfManyTypesOfTokens_GetsNoTypeThatAByteCannotHold) {
  JsonlLimits limits = kLimits;
  limits.num_types = 512;
  const auto of = [&](int type) {
    return Read(absl::StrCat("{\"input_ids\": [1], \"token_type_ids\": [", type, "], \"label\": 0}"), limits);
  };
  ASSERT_TRUE(of(255).ok()) << of(255).status();
  EXPECT_THAT(of(255)->types, ElementsAre(255));
  EXPECT_EQ(of(256).status().message(), "texts: line 1: token_type_ids[0] is 256; a job takes at most 255");
  EXPECT_EQ(of(299).status().message(), "texts: line 1: token_type_ids[0] is 299; a job takes at most 255");
}

TEST_F(JsonlTest, ALabelThatTheLossLeavesOut_MayBeBeyondTheClasses) {
  JsonlLimits limits = kLimits;
  limits.ignored_label = 255;
  EXPECT_THAT(Good("{\"input_ids\": [1], \"label\": 255}\n{\"input_ids\": [1], \"label\": 2}", limits).labels,
              ElementsAre(255, 2));
  EXPECT_EQ(Read("{\"input_ids\": [1], \"label\": 254}", limits).status().message(),
            "texts: line 1: label is 254; the model has 3 classes");
}

TEST_F(JsonlTest, TextsAreHandedOnAsTheyAreReadUntilTheirTakerEndsIt) {
  const std::string content = absl::StrCat(
      "{\"input_ids\": [1, 2, 3, 4, 5], \"token_type_ids\": [0, 0, 0, 1, 1], \"label\": 2}\n", kLine, "\nno JSON");
  Write("texts", content);
  std::vector<std::string> lines;
  const absl::Status status = ForEachText(At("texts"), kLimits, [&](const TextLine& text) {
    lines.push_back(absl::StrCat(absl::StrJoin(text.tokens, " "), " | ", absl::StrJoin(text.types, " "), " | ",
                                 text.label.value_or(-1)));
    return lines.size() < 2 ? absl::OkStatus() : absl::CancelledError("enough");
  });
  EXPECT_EQ(status.message(), "enough") << "before the third line was looked at";
  EXPECT_THAT(lines, ElementsAre("1 2 3 4 5 | 0 0 0 1 1 | 2", "7 99 |  | 1")) << "uncut";
}

TEST_F(JsonlTest, ALineMayBeLongButNotEndless) {
  std::string tokens = "1";
  for (int i = 0; i < 1'500'000; ++i) {
    tokens += ",2";
  }
  const std::string line = absl::StrCat("{\"label\": 2, \"input_ids\": [", tokens, "]}");
  EXPECT_THAT(Good(absl::StrCat(line, "\n", kLine)).labels, ElementsAre(2, 1));
  EXPECT_EQ(Bad(std::string(kMaxJsonlLineBytes + 1, ' ')), "texts: line 1: more than 16777216 bytes");
  const std::string longest = kLine + std::string(kMaxJsonlLineBytes + 1 - sizeof(kLine), ' ');
  ASSERT_EQ(longest.size(), kMaxJsonlLineBytes);
  EXPECT_THAT(Good(absl::StrCat(longest, "\n", longest)).labels, ElementsAre(1, 1));
  EXPECT_EQ(Bad(absl::StrCat(kLine, "\n", longest, " \n")), "texts: line 2: more than 16777216 bytes");
}

TEST_F(JsonlTest, AFileThatIsCutAtAnyByteIsALineShortOrAnError) {
  const std::string content = absl::StrCat(kLine, "\n", kLine, "\n");
  for (size_t size = 0; size < content.size(); ++size) {
    const auto texts = Read(content.substr(0, size));
    const bool ends_with_a_line = size == sizeof(kLine) - 1 || size == sizeof(kLine) || size == content.size() - 1;
    EXPECT_EQ(texts.ok(), ends_with_a_line) << size;
  }
}

}  // namespace
}  // namespace ampd::data
