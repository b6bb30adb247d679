#include "client/render/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/civil_time.h"

namespace ampd::client {
namespace {

using ::testing::Optional;

absl::Time At(int hour, int minute, int second = 0) {
  return absl::FromCivil(absl::CivilSecond(2026, 1, 31, hour, minute, second), absl::UTCTimeZone());
}

TEST(TimeOfLogLine, IsTheTrainersOwn) {
  EXPECT_THAT(TimeOfLogLine("2026-01-31T22:59:58Z step 1"), Optional(At(22, 59, 58)));
  for (const char* line : {"", "2026-01-31T22:59:58Z", "2026-01-31 22:59:58 step", "2026-13-31T22:59:58Z step", "x"}) {
    EXPECT_EQ(TimeOfLogLine(line), std::nullopt) << line;
  }
}

TEST(StartOfLastLines, CountsALineWithoutABreak) {
  const struct {
    const char* text;
    int num_lines;
    const char* last;
  } cases[] = {{"", 3, ""},           {"a", 1, "a"},           {"a\n", 1, "a\n"},       {"a\nb", 1, "b"},
               {"a\nb\n", 1, "b\n"},  {"a\nb\n", 2, "a\nb\n"}, {"a\nb\n", 9, "a\nb\n"}, {"a\n\n", 1, "\n"},
               {"\n\n\n", 2, "\n\n"}, {"a\nb", 0, ""}};
  for (const auto& test : cases) {
    const std::string text = test.text;
    EXPECT_EQ(text.substr(StartOfLastLines(text, test.num_lines)), test.last) << text << " " << test.num_lines;
  }
}

TEST(ParseMoment, TakesDurationsAndTimes) {
  const absl::Time now = At(12, 0);
  const absl::TimeZone zone = absl::FixedTimeZone(3600);
  EXPECT_THAT(ParseMoment("90m", now, zone), Optional(At(10, 30)));
  EXPECT_THAT(ParseMoment("2026-01-31T22:59:59Z", now, zone), Optional(At(22, 59, 59)));
  EXPECT_THAT(ParseMoment("2026-01-31T22:59:59+01:00", now, zone), Optional(At(21, 59, 59)));
  EXPECT_THAT(ParseMoment("2026-01-31 22:59:59", now, zone), Optional(At(21, 59, 59)));
  EXPECT_THAT(ParseMoment("2026-01-31T22:59", now, zone), Optional(At(21, 59)));
  EXPECT_THAT(ParseMoment("2026-01-31 22:59:59 UTC", now, zone), Optional(At(22, 59, 59)));
  EXPECT_THAT(ParseMoment("2026-01-31", now, absl::UTCTimeZone()), Optional(At(0, 0)));
  for (const char* text : {"", "soon", "10", "-5m", "2026-01-31 22:59:59 CET", "2026-02-30", "22:59"}) {
    EXPECT_EQ(ParseMoment(text, now, zone), std::nullopt) << text;
  }
}

TEST(LogSince, PrintsTheSameHoweverTheLogIsCutIntoPieces) {
  const std::string log =
      "short\n2026-01-31T22:00:00Z old\na line without a time that is longer than one\n2026-01-31T22:00:05Z new\nx\n"
      "2026-01-31T21:00:00Z a clock that was set back\n";
  const std::string expected = log.substr(log.find("2026-01-31T22:00:05Z"));
  for (size_t size = 1; size <= log.size(); ++size) {
    LogSince since(At(22, 0, 5) + absl::Milliseconds(900));
    std::string printed;
    for (size_t at = 0; at < log.size(); at += size) {
      printed += since.Filter(log.substr(at, size));
    }
    EXPECT_EQ(printed, expected) << "pieces of " << size << " bytes";
  }
}

}  // namespace
}  // namespace ampd::client
