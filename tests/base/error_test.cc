#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/grpc/grpc_status.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Error, CarriesReasonAndMetadata) {
  const absl::Status status =
      ErrorWithMetadata(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", "no job j-1", {{"job", "j-1"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), "JOB_NOT_FOUND");
  EXPECT_THAT(MetadataOf(status), ElementsAre(Pair("job", "j-1")));
}

TEST(Error, InvalidFieldsKeepsAllAndNamesTheFirst) {
  const std::vector<FieldViolation> violations = {{"train.steps", "is -1; it must be at least 1"},
                                                  {"data.batch_size", "is missing"}};
  const absl::Status status = InvalidFields(violations);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "train.steps: is -1; it must be at least 1 (and 1 more)");
  EXPECT_EQ(ViolationsOf(status), violations);
}

TEST(Error, PlainStatusCarriesNothing) {
  const absl::Status status = absl::InternalError("x");
  EXPECT_EQ(ReasonOf(status), "");
  EXPECT_TRUE(MetadataOf(status).empty());
  EXPECT_TRUE(ViolationsOf(status).empty());
  EXPECT_FALSE(RetryDelayOf(status).has_value());
}

TEST(GrpcStatus, RoundTripKeepsCodeMessageAndEveryDetail) {
  const absl::Status original =
      WithRetryDelay(InvalidFields({{"a.b", "is wrong"}}), absl::Seconds(3) + absl::Milliseconds(250));
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(original));
  EXPECT_EQ(back, original);
  EXPECT_EQ(RetryDelayOf(back), absl::Milliseconds(3250));
}

// The size in bytes of the trailers that carry an error over gRPC: the message percent-encoded, the details in base64.
size_t WireBytes(const grpc::Status& status) {
  size_t message = 0;
  for (const char c : status.error_message()) {
    message += c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
  }
  return message + (status.error_details().size() + 2) / 3 * 4;
}

TEST(GrpcStatus, FiveThousandViolationsFitAndTheLastSaysHowManyMore) {
  std::vector<FieldViolation> violations;
  for (int i = 0; i < 5000; ++i) {
    violations.push_back({absl::StrCat("precision.module_rules[", i, "].match"), "must not be empty"});
  }
  const grpc::Status sent = ToGrpcStatus(InvalidFields(violations));
  EXPECT_LE(WireBytes(sent), kMaxErrorBytes);
  const absl::Status status = FromGrpcStatus(sent);
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELDS");
  EXPECT_EQ(status.message(), "precision.module_rules[0].match: must not be empty (and 4999 more)");
  const std::vector<FieldViolation> kept = ViolationsOf(status);
  ASSERT_GT(kept.size(), 10u);
  EXPECT_EQ(kept[9], violations[9]);
  EXPECT_EQ(kept.back().field, "");
  EXPECT_EQ(kept.back().description, absl::StrCat("and ", 5000 - (kept.size() - 1), " more"));
}

TEST(GrpcStatus, LongTextsAreCutBetweenCharactersAndTheErrorStaysWhole) {
  const std::string megabyte = [] {
    std::string text;
    while (text.size() < (1 << 20)) text += "\u00e4\u4e16x\U0001f600";
    return text;
  }();
  const absl::Status errors[] = {
      InvalidFields({{"name", "is \"" + megabyte + "\""}}), InvalidFields({{megabyte, "is unknown"}, {"a", "b"}}),
      UnsupportedField(megabyte, megabyte),
      WithRetryDelay(ErrorWithMetadata(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", megabyte,
                                       {{"job", megabyte}, {"other", megabyte}, {"third", "short"}}),
                     absl::Seconds(3)),
      absl::InternalError(megabyte)};
  for (const absl::Status& error : errors) {
    const grpc::Status sent = ToGrpcStatus(error);
    EXPECT_LE(WireBytes(sent), kMaxErrorBytes);
    EXPECT_EQ(ValidUtf8(sent.error_message()), sent.error_message());
    const absl::Status back = FromGrpcStatus(sent);
    EXPECT_EQ(back.code(), error.code());
    EXPECT_EQ(ReasonOf(back), ReasonOf(error));
    EXPECT_EQ(RetryDelayOf(back), RetryDelayOf(error));
    EXPECT_EQ(ViolationsOf(back).empty(), ViolationsOf(error).empty());
    for (const FieldViolation& violation : ViolationsOf(back)) {
      EXPECT_EQ(ValidUtf8(violation.description), violation.description);
    }
  }
}

TEST(GrpcStatus, BytesThatAreNoTextBecomeText) {
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(ErrorWithMetadata(absl::StatusCode::kNotFound, "X",
                                                                          "no file a\xff"
                                                                          "b",
                                                                          {{"file", "a\xff"}})));
  EXPECT_EQ(back.message(), "no file a?b");
  EXPECT_EQ(ReasonOf(back), "X") << "details that are no UTF-8 are not read by others";
}

TEST(Text, IsShortenedBetweenCharacters) {
  EXPECT_EQ(Shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(Shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(Shortened("ab\u00e4\u00e4\u00e4", 6), "ab...") << "the third byte would be half a letter";
  EXPECT_EQ(Shortened("\U0001f600\U0001f600", 6), "...");
}

TEST(Text, StaysOnOneLine) {
  EXPECT_EQ(OneLine("plain \u00e4\u4e16"), "plain \u00e4\u4e16");
  EXPECT_EQ(OneLine("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(OneLine(std::string("\x1b[2J\x00\x7f", 6)), "\\x1b[2J\\x00\\u007f");
  EXPECT_EQ(OneLine("a\u2028b\u0085c\u202ed"), "a\\u2028b\\u0085c\\u202ed");
  EXPECT_EQ(OneLine("\xff\xc3("), "\\xff\\xc3(");
  EXPECT_EQ(OneLine("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a surrogate pair";
}

TEST(Text, MarksOfDirectionAreEscaped) {
  EXPECT_EQ(OneLine("\u061c\u200e\u200f\u2066\u2067\u2068\u2069"), "\\u061c\\u200e\\u200f\\u2066\\u2067\\u2068\\u2069");
  EXPECT_EQ(OneLine("\u200d\u2030"), "\u200d\u2030") << "joiners belong to words and emoji";
}

TEST(Text, CharactersThatNobodySeesAreEscaped) {
  EXPECT_EQ(OneLine("a\u200bb\ufeffc\u00add\u00a0e\u2060f\u2003g\u3164h\u034fi\ufe0fj\u180ek\u3000l"),
            "a\\u200bb\\ufeffc\\u00add\\u00a0e\\u2060f\\u2003g\\u3164h\\u034fi\\ufe0fj\\u180ek\\u3000l");
  EXPECT_EQ(OneLine("\U000e0041\U0001d173\U0001f600"), "\\udb40\\udc41\\ud834\\udd73\U0001f600") << "as in JSON";
}

TEST(Text, TheFirstByteThatIsNotUtf8IsFound) {
  EXPECT_EQ(FirstInvalidUtf8("plain \u00e4\u4e16"), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("caf\xe9"), 3u);
  EXPECT_EQ(FirstInvalidUtf8("\u00e4\xc3"), 2u) << "a character that is cut off";
  EXPECT_EQ(NotUtf8("caf\xe9", 3), "the byte 0xe9 at offset 3 is not UTF-8");
}

TEST(GrpcStatus, EveryCanonicalCodeSurvives) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status original(static_cast<absl::StatusCode>(code), "m");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(original)).raw_code(), code);
  }
}

TEST(GrpcStatus, GarbageInDetailsIsIgnored) {
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "m", "\xff\xff not a proto"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), "");
}

absl::StatusOr<int> HalfOf(int value) {
  if (value % 2 != 0) {
    return absl::InvalidArgumentError("odd");
  }
  return value / 2;
}

absl::StatusOr<int> QuarterOf(int value) {
  AMPD_ASSIGN_OR_RETURN(const int half, HalfOf(value));
  AMPD_ASSIGN_OR_RETURN(const int quarter, HalfOf(half));
  return quarter;
}

TEST(StatusMacros, ReturnTheFirstError) {
  EXPECT_EQ(QuarterOf(8).value(), 2);
  EXPECT_EQ(QuarterOf(6).status().message(), "odd");
}

}  // namespace
}  // namespace ampd
