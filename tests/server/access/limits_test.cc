#include "server/access/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ampd::server {
namespace {

TEST(Limits, ATenantHasItsOwnLimits_AndForTheRestThoseOfAll) {
  Limits limits;
  EXPECT_FALSE(limits.OfTenant("vision").jobs.has_value());
  for (const char* const text : {"vision:jobs=5", "*:jobs=10", "*:requests=100", "vision:artifact-bytes=2GiB",
                                 "nlp:spec-bytes=1MB", "nlp:streams=7"}) {
    ASSERT_TRUE(limits.AddForTenants(text).ok()) << text;
  }
  EXPECT_EQ(limits.OfTenant("vision").jobs, 5);
  EXPECT_EQ(limits.OfTenant("vision").requests, 100);
  EXPECT_EQ(limits.OfTenant("vision").artifact_bytes, int64_t{2} << 30);
  EXPECT_EQ(limits.OfTenant("vision").streams, std::nullopt);
  EXPECT_EQ(limits.OfTenant("nlp").jobs, 10);
  EXPECT_EQ(limits.OfTenant("nlp").spec_bytes, 1'000'000);
  EXPECT_EQ(limits.OfTenant("nlp").streams, 7);
  EXPECT_EQ(limits.OfTenant("unheard").jobs, 10);
  EXPECT_EQ(limits.of_caller().requests, std::nullopt);
  ASSERT_TRUE(limits.AddForCallers("requests=20").ok());
  ASSERT_TRUE(limits.AddForCallers("streams=3").ok());
  EXPECT_EQ(limits.of_caller().requests, 20);
  EXPECT_EQ(limits.of_caller().streams, 3);
}

TEST(Limits, WhatIsNoLimit_IsRefusedWithItsFault) {
  Limits limits;
  for (const char* const text :
       {"", "vision", "vision:", "vision:jobs", "vision:jobs=", "vision:jobs=0", "vision:jobs=-1", "vision:jobs=x",
        "vision:jobs=1GiB", "vision:memory=1", "Vision:jobs=1", ":jobs=1", "vision:spec-bytes=x",
        "vision:jobs=99999999999999999999"}) {
    const absl::Status status = limits.AddForTenants(text);
    EXPECT_EQ(ReasonOf(status), "BAD_LIMIT") << text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("a limit is TENANT:LIMIT=NUMBER")) << text;
  }
  for (const char* const text : {"", "jobs=1", "requests", "requests=0", "vision:requests=1"}) {
    EXPECT_EQ(ReasonOf(limits.AddForCallers(text)), "BAD_LIMIT") << text;
  }
}

TEST(Limits, AreReplacedAsAWhole) {
  Limits limits;
  ASSERT_TRUE(limits.AddForTenants("vision:jobs=5").ok());
  Limits next;
  ASSERT_TRUE(next.AddForCallers("requests=7").ok());
  limits = next;
  EXPECT_FALSE(limits.OfTenant("vision").jobs.has_value());
  EXPECT_EQ(limits.of_caller().requests, 7);
}

}  // namespace
}  // namespace ampd::server
