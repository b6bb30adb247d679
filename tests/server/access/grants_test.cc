#include "server/access/grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

constexpr uid_t kAlice = 4'000'000'001, kBob = 4'000'000'002;

TEST(Grants, OnlyTheGivenAdminsHaveARoleAtFirst) {
  const Grants grants({kAlice});
  EXPECT_TRUE(grants.empty());
  EXPECT_EQ(grants.Of({.uid = kAlice}).role, Role::kAdmin);
  EXPECT_EQ(grants.Of({.uid = kBob}).role, std::nullopt);
}

TEST(Grants, AUserIsNamedByItsName_OrByItsUidIfItHasNone) {
  const Grants grants({});
  EXPECT_EQ(grants.Of({.uid = 0}).name, "user:root");
  EXPECT_EQ(grants.Of({.uid = kBob}).name, "uid:4000000002");
}

TEST(Grants, TheHighestOfSeveralRolesCounts) {
  Grants grants({});
  ASSERT_TRUE(grants.Add("uid:4000000001=viewer").ok());
  ASSERT_TRUE(grants.Add("group:root=operator").ok());
  EXPECT_FALSE(grants.empty());
  EXPECT_EQ(grants.Of({.uid = kAlice}).role, Role::kViewer);
  EXPECT_EQ(grants.Of({.uid = kAlice, .groups = {7, 0}}).role, Role::kOperator);
  EXPECT_EQ(grants.Of({.uid = kBob, .groups = {0}}).role, Role::kOperator);
  EXPECT_EQ(grants.Of({.uid = kBob, .groups = {7}}).role, std::nullopt);
}

TEST(Grants, ALaterGrantToTheSameUserReplacesTheEarlierOne) {
  Grants grants({});
  ASSERT_TRUE(grants.Add("user:root=admin").ok());
  ASSERT_TRUE(grants.Add("uid:0=viewer").ok());
  EXPECT_EQ(grants.Of({.uid = 0}).role, Role::kViewer);
}

TEST(Grants, WhatIsNoGrant_IsRefusedWithItsFault) {
  Grants grants({});
  const auto fault = [&grants](const char* text) {
    const absl::Status status = grants.Add(text);
    EXPECT_EQ(ReasonOf(status), "BAD_GRANT") << text;
    return std::string(status.message());
  };
  EXPECT_THAT(fault("user:root=king"), HasSubstr("there is no role 'king'; the roles are viewer"));
  EXPECT_THAT(fault("user:no-such-user=viewer"), HasSubstr("this host has no user 'no-such-user'"));
  EXPECT_THAT(fault("group:no-such-group=viewer"), HasSubstr("this host has no group 'no-such-group'"));
  for (const char* const text :
       {"", "=", "root", "root=viewer", "user:=viewer", "user:root", "uid:x=viewer", "uid:=viewer", "uid:-1=viewer",
        "uid:4294967296=viewer", "host:x=viewer", "user:root=", "user:root=Viewer"}) {
    EXPECT_THAT(fault(text), HasSubstr("a grant is user:NAME=ROLE")) << text;
  }
  EXPECT_TRUE(grants.empty());
}

}  // namespace
}  // namespace ampd::server
