#include "server/rpc/calls/call_limits.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/simulated_clock.h"

namespace ampd::server {
namespace {

class CallLimitsTest : public testing::Test {
 protected:
  static Identity Member(const std::string& name, const std::string& tenant) {
    return {.name = name, .roles = {{Role::kSubmitter, Tenants({tenant})}}};
  }
  // Returns how many calls are accepted before one is refused.
  int NumTaken(const Identity& identity) {
    int num_taken = 0;
    while (num_taken < 1000 && limits_.TakeCall(identity).ok()) {
      ++num_taken;
    }
    return num_taken;
  }

  SimulatedClock clock_;
  Limits bounds_;
  CallLimits limits_{&bounds_, &clock_};
};

TEST_F(CallLimitsTest, WithoutLimits_EveryCallIsTaken) { EXPECT_EQ(NumTaken(Member("user:a", "vision")), 1000); }

TEST_F(CallLimitsTest, ACallerHasItsRate_AndIsToldWhenThereIsRoom) {
  ASSERT_TRUE(bounds_.AddForCallers("requests=20").ok());
  const Identity a = Member("user:a", "vision"), b = Member("user:b", "vision");
  EXPECT_EQ(NumTaken(a), 20);
  EXPECT_EQ(NumTaken(b), 20) << "another caller has its own";
  const absl::Status refused = limits_.TakeCall(a);
  EXPECT_EQ(ReasonOf(refused), "RATE_LIMIT");
  EXPECT_EQ(RetryDelayOf(refused), absl::Milliseconds(50));
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_EQ(NumTaken(a), 1);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(NumTaken(a), 20) << "a bucket holds one second";
}

TEST_F(CallLimitsTest, ASlowRateStillAllowsAFewCallsAtOnce) {
  ASSERT_TRUE(bounds_.AddForCallers("requests=1").ok());
  EXPECT_EQ(NumTaken(Member("user:a", "vision")), CallLimits::kBurst);
}

TEST_F(CallLimitsTest, TheCallersOfATenantShareItsRate) {
  ASSERT_TRUE(bounds_.AddForTenants("vision:requests=30").ok());
  EXPECT_EQ(NumTaken(Member("user:a", "vision")) + NumTaken(Member("user:b", "vision")), 30);
  EXPECT_EQ(NumTaken(Member("user:c", "nlp")), 1000) << "another tenant feels nothing";
  EXPECT_EQ(NumTaken(Identity::InAllTenants("user:root", Role::kAdmin)), 1000);
}

// If one limit refuses a call, the call must not count for the other limits.
TEST_F(CallLimitsTest, ARefusedCallCountsForNothing) {
  ASSERT_TRUE(bounds_.AddForTenants("vision:requests=30").ok());
  ASSERT_TRUE(bounds_.AddForCallers("requests=20").ok());
  EXPECT_EQ(NumTaken(Member("user:a", "vision")), 20);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(limits_.TakeCall(Member("user:a", "vision")).ok());
  }
  EXPECT_EQ(NumTaken(Member("user:b", "vision")), 10);
}

TEST_F(CallLimitsTest, AgentsHaveNoLimit) {
  ASSERT_TRUE(bounds_.AddForCallers("requests=1").ok());
  ASSERT_TRUE(bounds_.AddForTenants("*:requests=1").ok());
  EXPECT_EQ(NumTaken({.name = "token:gpus", .roles = {{Role::kAgent, Tenants({"vision"})}}}), 1000);
}

TEST_F(CallLimitsTest, AStreamCountsUntilItsSlotIsGone) {
  ASSERT_TRUE(bounds_.AddForTenants("vision:streams=3").ok());
  ASSERT_TRUE(bounds_.AddForCallers("streams=2").ok());
  const Identity a = Member("user:a", "vision"), b = Member("user:b", "vision");
  std::vector<CallLimits::Slot> slots;
  slots.push_back(*limits_.TakeStream(a));
  slots.push_back(*limits_.TakeStream(a));
  const absl::Status refused = limits_.TakeStream(a).status();
  EXPECT_EQ(ReasonOf(refused), "TOO_MANY_STREAMS");
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  slots.push_back(*limits_.TakeStream(b));
  EXPECT_EQ(ReasonOf(limits_.TakeStream(b).status()), "TOO_MANY_STREAMS") << "the tenant's";
  slots.erase(slots.begin());
  EXPECT_TRUE(limits_.TakeStream(b).ok());
  EXPECT_TRUE(limits_.TakeCall(a).ok()) << "calls that are no streams are not meant";
}

TEST_F(CallLimitsTest, ManyCallersAreForgottenAgain) {
  ASSERT_TRUE(bounds_.AddForCallers("requests=20").ok());
  const auto slot = limits_.TakeStream(Member("user:open", "vision"));
  for (int i = 0; i < 30'000; ++i) {
    EXPECT_TRUE(limits_.TakeCall(Member(absl::StrCat("user:", i), "vision")).ok());
    clock_.Advance(absl::Milliseconds(20));
  }
  EXPECT_LT(limits_.num_remembered(), 15'000u);
}

}  // namespace
}  // namespace ampd::server
