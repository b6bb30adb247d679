#include "base/trace_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

using testing::MatchesRegex;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";
// The example of the W3C standard.
const std::string kExample = absl::StrCat("00-", kTrace, "-", kSpan, "-01");

// Returns a copy of the text in which `replacement` overwrites the characters from position `at` on.
std::string With(std::string text, size_t at, const std::string& replacement) {
  return text.replace(at, replacement.size(), replacement);
}

TEST(ParseTraceparent, ReadsTheExampleOfTheStandard) {
  const std::optional<TraceContext> context = ParseTraceparent(kExample);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(TraceIdOf(*context), kTrace);
  EXPECT_EQ(SpanIdOf(*context), kSpan);
  EXPECT_EQ(ParentSpanIdOf(*context), "");
  EXPECT_TRUE(context->sampled);
  EXPECT_TRUE(context->IsSet());
  EXPECT_EQ(FormatTraceparent(*context), kExample);
}

TEST(ParseTraceparent, KeepsOnlyTheFlagThatItKnows) {
  for (const auto& [flags, kept] : std::vector<std::pair<std::string, std::string>>{
           {"00", "00"}, {"01", "01"}, {"02", "00"}, {"03", "01"}, {"fe", "00"}, {"ff", "01"}}) {
    const std::optional<TraceContext> context = ParseTraceparent(With(kExample, 53, flags));
    ASSERT_TRUE(context.has_value()) << flags;
    EXPECT_EQ(FormatTraceparent(*context), With(kExample, 53, kept));
  }
}

TEST(ParseTraceparent, ReadsTheBeginningOfALaterVersion) {
  for (const std::string& later : {With(kExample, 0, "01"), With(kExample, 0, "cc"), With(kExample, 0, "fe")}) {
    for (const std::string& text : {later, later + "-", later + "-what the future will be like", later + "--"}) {
      const std::optional<TraceContext> context = ParseTraceparent(text);
      ASSERT_TRUE(context.has_value()) << text;
      EXPECT_EQ(FormatTraceparent(*context), kExample) << "as version 00";
    }
    EXPECT_FALSE(ParseTraceparent(later + ".what").has_value());
    EXPECT_FALSE(ParseTraceparent(later + "1").has_value());
  }
}

TEST(ParseTraceparent, RefusesEverythingElse) {
  const std::string zeros(32, '0');
  const std::vector<std::string> bad = {
      "",
      "0",
      "00-",
      "traceparent",
      kExample + "-",                            // Text after version 00's last field.
      kExample + "-01",                          //
      kExample + "0",                            //
      kExample + " ",                            //
      " " + kExample,                            //
      kExample + "\n",                           //
      kExample.substr(0, 54),                    // Too short.
      With(kExample, 0, "ff"),                   // The standard forbids version ff.
      With(kExample, 0, "ff") + "-more",         // Version ff, longer than version 00.
      With(kExample, 0, "0g"),                   //
      With(kExample, 0, "CC"),                   // Upper case is not allowed in any field.
      With(kExample, 3, "4BF92F"),               //
      With(kExample, 36, "00F067"),              //
      With(kExample, 53, "0A"),                  //
      With(kExample, 3, zeros),                  // An id of zeros is not valid.
      With(kExample, 36, zeros.substr(0, 16)),   //
      With(kExample, 2, "_"),                    // A separator is not a dash.
      With(kExample, 35, "_"),                   //
      With(kExample, 52, "_"),                   //
      With(kExample, 10, "."),                   // A character is not a digit.
      With(kExample, 40, "."),                   //
      With(kExample, 54, "."),                   //
      With(kExample, 10, "\xc3\xa4"),            // A character is not ASCII.
      With(kExample, 10, std::string(1, '\0')),  //
      kExample + "," + kExample,                 // Two headers that a proxy has joined.
      std::string(1 << 20, '0'),
  };
  for (const std::string& text : bad) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text.substr(0, 200);
  }
}

TEST(TraceContext, WithoutATrace_HasNoTexts) {
  const TraceContext none;
  EXPECT_FALSE(none.IsSet());
  EXPECT_EQ(FormatTraceparent(none), "");
  EXPECT_EQ(TraceIdOf(none) + SpanIdOf(none) + ParentSpanIdOf(none), "");
}

TEST(NewTrace, HasIdsOfItsOwn_AndNoParent) {
  SeededRandom random(1);
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const TraceContext context = NewTrace(random);
    EXPECT_THAT(FormatTraceparent(context), MatchesRegex("00-[0-9a-f]{32}-[0-9a-f]{16}-00"));
    EXPECT_EQ(ParentSpanIdOf(context), "");
    ids.insert(TraceIdOf(context));
    ids.insert(SpanIdOf(context));
  }
  EXPECT_EQ(ids.size(), 2000u);
}

TEST(ChildSpan, KeepsTheTraceAndNamesItsParent) {
  SeededRandom random(2);
  const TraceContext parent = *ParseTraceparent(kExample);
  const TraceContext child = ChildSpan(parent, random);
  EXPECT_EQ(child.trace_id, parent.trace_id);
  EXPECT_EQ(child.parent_span_id, parent.span_id);
  EXPECT_NE(child.span_id, parent.span_id);
  EXPECT_TRUE(child.sampled);
  const TraceContext grandchild = ChildSpan(child, random);
  EXPECT_EQ(grandchild.trace_id, parent.trace_id);
  EXPECT_EQ(grandchild.parent_span_id, child.span_id);
}

TEST(ContinueOrBegin, BeginsATraceIfTheParentIsNotValid) {
  SeededRandom random(3);
  EXPECT_EQ(TraceIdOf(ContinueOrBegin(kExample, random)), kTrace);
  EXPECT_EQ(ParentSpanIdOf(ContinueOrBegin(kExample, random)), kSpan);
  for (const std::string& bad : {std::string(), With(kExample, 0, "ff"), absl::AsciiStrToUpper(kExample)}) {
    const TraceContext begun = ContinueOrBegin(bad, random);
    EXPECT_TRUE(begun.IsSet()) << bad;
    EXPECT_NE(TraceIdOf(begun), kTrace) << bad;
    EXPECT_EQ(ParentSpanIdOf(begun), "") << bad;
  }
}

// Formats random contexts: parsing the text gives the same context. Then changes the text at random. If the parser
// accepts the changed text, formatting the result gives the same fields again.
TEST(ParseTraceparent, FormattedAndParsed_AreTheSame) {
  constexpr uint64_t kSeed = 4;
  SeededRandom random(kSeed);
  int num_accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    TraceContext context = NewTrace(random);
    context.sampled = i % 2 == 0;
    std::string text = FormatTraceparent(context);
    ASSERT_EQ(text.size(), kTraceparentLength);
    ASSERT_EQ(ParseTraceparent(text), context) << text << ", seed " << kSeed;
    const size_t at = random.Next() % text.size();
    text[at] = static_cast<char>(random.Next());
    text.resize(text.size() - random.Next() % 2);
    if (const std::optional<TraceContext> parsed = ParseTraceparent(text); parsed.has_value()) {
      ++num_accepted;
      const std::string again = FormatTraceparent(*parsed);
      EXPECT_EQ(again.substr(2, 51), text.substr(2, 51)) << text << ", seed " << kSeed;
      EXPECT_EQ(ParseTraceparent(again), parsed) << text << ", seed " << kSeed;
    }
  }
  EXPECT_GT(num_accepted, 0);
}

}  // namespace
}  // namespace ampd
