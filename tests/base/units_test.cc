#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace ampd {
namespace {

TEST(Durations, AreSumsOfNumbersWithUnits) {
  EXPECT_EQ(ParseDuration("90s"), absl::Seconds(90));
  EXPECT_EQ(ParseDuration("1d"), absl::Hours(24));
  EXPECT_EQ(ParseDuration("1.5d"), absl::Hours(36));
  EXPECT_EQ(ParseDuration("1d12h"), absl::Hours(36));
  EXPECT_EQ(ParseDuration("1h30m0.5s"), absl::Minutes(90) + absl::Milliseconds(500));
  EXPECT_EQ(ParseDuration("300ms"), absl::Milliseconds(300));
  EXPECT_EQ(ParseDuration("3d04h"), absl::Hours(76)) << "as ampctl prints it";
  EXPECT_EQ(ParseDuration("0"), absl::ZeroDuration());
  EXPECT_EQ(ParseDuration("3652500d"), absl::Seconds(315'576'000'000));
}

TEST(Durations, OtherTextsAreRefused) {
  for (const char* text : {"", "90", "s", "-5s", "+5s", "1 h", "1h ", "5minutes", "inf", "1e3s", "1.2.3s", "1w", "1H",
                           "1h30", "3652501d", "99999999999999999999d", "0x10s", "."}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
}

TEST(Durations, TimesOfSlurmAndOfIso8601_AreGuessed) {
  EXPECT_EQ(GuessDuration("01:30:00"), "1h30m");
  EXPECT_EQ(GuessDuration("90:00"), "1h30m");
  EXPECT_EQ(GuessDuration("2-00:00:00"), "2d");
  EXPECT_EQ(GuessDuration("1-12"), "1d12h");
  EXPECT_EQ(GuessDuration("PT1H30M"), "1h30m");
  EXPECT_EQ(GuessDuration("P2DT1H"), "2d1h");
  for (const char* text :
       {"P1Y", "P1M", "P", "PT", "1:2:3:4", "-1:00", "1::2", "00:00:00", "1-", "a:b", "9999999:00"}) {
    EXPECT_EQ(GuessDuration(text), "") << text;
  }
}

TEST(Durations, TheLikelyMeaningIsGuessed) {
  EXPECT_EQ(GuessDuration("90"), "90s");
  EXPECT_EQ(GuessDuration("5 minutes"), "5m");
  EXPECT_EQ(GuessDuration("1 day 12 hours"), "1d12h");
  EXPECT_EQ(GuessDuration("2HRS"), "2h");
  EXPECT_EQ(GuessDuration("250 Milliseconds"), "250ms");
  EXPECT_EQ(GuessDuration("1w"), "7d");
  EXPECT_EQ(GuessDuration("2 weeks"), "14d");
  EXPECT_EQ(GuessDuration("2 hours ago"), "2h");
  EXPECT_EQ(GuessDuration("1h30"), "1h30m");
  EXPECT_EQ(GuessDuration("1d12"), "1d12h");
  EXPECT_EQ(GuessDuration("w"), "");
  EXPECT_EQ(GuessDuration("soon"), "");
  EXPECT_EQ(GuessDuration(""), "");
  EXPECT_EQ(NotADuration("5 min"), "'5 min' is not a duration such as 90s, 1h30m or 1d12h; did you mean '5m'?");
  EXPECT_EQ(NotADuration("soon"), "'soon' is not a duration such as 90s, 1h30m or 1d12h");
}

TEST(Durations, OneAboveTheLimit_IsRefusedAsTooLong) {
  EXPECT_EQ(WhyTooLong("99999999d"), "is longer than 10000 years");
  EXPECT_EQ(WhyTooLong("3652500d"), "");
  EXPECT_EQ(WhyTooLong("soon"), "");
  EXPECT_EQ(NotADuration("3652501d"), "'3652501d' is longer than 10000 years");
}

TEST(ByteCounts, OneAboveTheLimit_IsRefusedAsTooLarge) {
  EXPECT_EQ(WhyTooManyBytes("99999PiB"), "is more than 8191PiB");
  EXPECT_EQ(WhyTooManyBytes("9223372036854775808"), "is more than 8191PiB");
  EXPECT_EQ(WhyTooManyBytes("8191PiB"), "");
  EXPECT_EQ(WhyTooManyBytes("4XB"), "");
  EXPECT_EQ(NotAByteCount("9000000 TiB"), "'9000000 TiB' is more than 8191PiB");
}

TEST(ByteCounts, AreNumbersWithOrWithoutAUnit) {
  EXPECT_EQ(ParseByteCount("0"), 0);
  EXPECT_EQ(ParseByteCount("4096"), 4096);
  EXPECT_EQ(ParseByteCount("12B"), 12);
  EXPECT_EQ(ParseByteCount("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(ParseByteCount("4gib"), int64_t{4} << 30);
  EXPECT_EQ(ParseByteCount("4GB"), 4'000'000'000);
  EXPECT_EQ(ParseByteCount("1.5TiB"), int64_t{3} << 39);
  EXPECT_EQ(ParseByteCount("80.0 GiB"), int64_t{80} << 30) << "as ampctl prints it";
  EXPECT_EQ(ParseByteCount("1kB"), 1000);
  EXPECT_EQ(ParseByteCount("1PiB"), int64_t{1} << 50);
  EXPECT_EQ(ParseByteCount("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(ByteCounts, OtherTextsAreRefused) {
  for (const char* text : {"", "GiB", "4G", "4Gi", "4  GiB", "-1", "-1GiB", "1e9", "0.5", "0.3B", "4GiBs", " 4GiB",
                           "9223372036854775808", "9000000TiB", "1.2.3GiB", "4 ", "0x10"}) {
    EXPECT_EQ(ParseByteCount(text), std::nullopt) << text;
  }
}

TEST(ByteCounts, TheLikelyMeaningIsGuessed) {
  EXPECT_EQ(GuessByteCount("4G"), "4GB");
  EXPECT_EQ(GuessByteCount("4Gi"), "4GiB");
  EXPECT_EQ(GuessByteCount("512 m"), "512MB");
  EXPECT_EQ(GuessByteCount("4 gibibytes"), "4GiB");
  EXPECT_EQ(GuessByteCount("much"), "");
  EXPECT_EQ(GuessByteCount("4X"), "");
  EXPECT_EQ(NotAByteCount("4G"), "'4G' is not a number of bytes such as 4096, 500MB or 4GiB; did you mean '4GB'?");
}

TEST(ByteCounts, AreWrittenInTheLargestWholeUnit) {
  EXPECT_EQ(ByteCountText(0), "0B");
  EXPECT_EQ(ByteCountText(1500), "1500B");
  EXPECT_EQ(ByteCountText(int64_t{20} << 30), "20GiB");
  EXPECT_EQ(ByteCountText(int64_t{5} << 50), "5PiB");
  EXPECT_EQ(ParseByteCount(ByteCountText(1536)), 1536);
}

}  // namespace
}  // namespace ampd
