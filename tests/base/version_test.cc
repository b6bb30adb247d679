#include "base/version.h"

#include <gtest/gtest.h>

namespace ampd {
namespace {

TEST(Version, ThisVersionIsOne) { EXPECT_TRUE(ParseVersion(Version()).has_value()); }

TEST(Version, OnlyThreeNumbersAreAVersion) {
  EXPECT_EQ(ParseVersion("1.22.3"), (MinorVersion{1, 22}));
  for (const char* text : {"", "1.2", "1.2.3.4", "1.2.x", "v1.2.3", "1.-2.3", "1.2.3-rc1", "99999999999.1.1"}) {
    EXPECT_FALSE(ParseVersion(text).has_value()) << text;
  }
}

TEST(Version, NeighboursOfOneMajorVersionWorkTogether) {
  EXPECT_TRUE(WorkTogether("5.1.9", "5.2.0"));
  EXPECT_TRUE(WorkTogether("5.2.0", "5.1.9"));
  EXPECT_TRUE(WorkTogether("5.2.0", "5.2.7"));
  EXPECT_FALSE(WorkTogether("5.1.0", "5.3.0"));
  EXPECT_FALSE(WorkTogether("6.1.0", "5.1.0"));
  EXPECT_FALSE(WorkTogether("", "5.1.0"));
}

TEST(Version, OnlyANewerVersionIsTooNew) {
  EXPECT_TRUE(IsTooNew("5.3.0", "5.1.9"));
  EXPECT_TRUE(IsTooNew("6.0.0", "5.1.0"));
  EXPECT_FALSE(IsTooNew("5.2.5", "5.1.0"));
  EXPECT_FALSE(IsTooNew("5.1.0", "5.9.0"));
  EXPECT_FALSE(IsTooNew("", "5.1.0"));
}

}  // namespace
}  // namespace ampd
