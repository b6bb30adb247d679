#include "server/access/grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kAlice = 4'000'000'001, kBob = 4'000'000'002;

TEST(Grants, OnlyTheGivenAdminsHaveARoleAtFirst) {
  const Grants grants({kAlice});
  EXPECT_TRUE(grants.empty());
  EXPECT_THAT(grants.Of({.uid = kAlice}).roles, ElementsAre(Role::kAdmin));
  EXPECT_THAT(grants.Of({.uid = kBob}).roles, IsEmpty());
}

TEST(Grants, AUserIsNamedByItsName_OrByItsUidIfItHasNone) {
  const Grants grants({});
  EXPECT_EQ(grants.Of({.uid = 0}).name, "user:root");
  EXPECT_EQ(grants.Of({.uid = kBob}).name, "uid:4000000002");
}

TEST(Grants, APeerHasTheRolesOfTheUserAndOfAllItsGroups) {
  Grants grants({});
  ASSERT_TRUE(grants.Add("uid:4000000001=viewer").ok());
  ASSERT_TRUE(grants.Add("group:root=operator").ok());
  EXPECT_FALSE(grants.empty());
  EXPECT_THAT(grants.Of({.uid = kAlice}).roles, ElementsAre(Role::kViewer));
  EXPECT_THAT(grants.Of({.uid = kAlice, .groups = {7, 0}}).roles, ElementsAre(Role::kViewer, Role::kOperator));
  EXPECT_THAT(grants.Of({.uid = kBob, .groups = {0}}).roles, ElementsAre(Role::kOperator));
  EXPECT_THAT(grants.Of({.uid = kBob, .groups = {7}}).roles, IsEmpty());
}

TEST(Grants, SeveralGrantsToOneUserAddUp) {
  Grants grants({});
  ASSERT_TRUE(grants.Add("user:root=agent").ok());
  ASSERT_TRUE(grants.Add("uid:0=viewer").ok());
  EXPECT_THAT(grants.Of({.uid = 0}).roles, ElementsAre(Role::kViewer, Role::kAgent));
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

TEST(Grants, ACertificateHasTheRolesOfAllGlobsThatMatchItsName) {
  Grants grants({});
  for (const char* const grant : {"cert:gpu-*=agent", "cert:gpu-1=viewer", "cert:alice=admin"}) {
    ASSERT_TRUE(grants.Add(grant).ok());
  }
  EXPECT_TRUE(grants.empty()) << "no local user has a role";
  EXPECT_THAT(grants.OfCertificate("gpu-1").roles, ElementsAre(Role::kViewer, Role::kAgent));
  EXPECT_EQ(grants.OfCertificate("gpu-1").name, "cert:gpu-1");
  EXPECT_EQ(grants.OfCertificate("gpu-1").workers, "gpu-1");
  EXPECT_THAT(grants.OfCertificate("bob").roles, IsEmpty());
  for (const char* const name : {"", "*", "alice ", "al\nice", "\xc3\xa4"}) {
    EXPECT_EQ(grants.OfCertificate(name).name, "") << name;
  }
  EXPECT_EQ(ReasonOf(grants.Add("cert:Alice Smith=viewer")), "BAD_GRANT");
}

}  // namespace
}  // namespace ampd::server
