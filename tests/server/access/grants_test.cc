#include "server/access/grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
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
  EXPECT_THAT(grants.Of({.uid = kAlice}).role_names(), ElementsAre(Role::kAdmin));
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
  EXPECT_THAT(grants.Of({.uid = kAlice}).role_names(), ElementsAre(Role::kViewer));
  EXPECT_THAT(grants.Of({.uid = kAlice, .groups = {7, 0}}).role_names(), ElementsAre(Role::kViewer, Role::kOperator));
  EXPECT_THAT(grants.Of({.uid = kBob, .groups = {0}}).role_names(), ElementsAre(Role::kOperator));
  EXPECT_THAT(grants.Of({.uid = kBob, .groups = {7}}).roles, IsEmpty());
}

TEST(Grants, SeveralGrantsToOneUserAddUp) {
  Grants grants({});
  ASSERT_TRUE(grants.Add("user:root=agent").ok());
  ASSERT_TRUE(grants.Add("uid:0=viewer").ok());
  EXPECT_THAT(grants.Of({.uid = 0}).role_names(), ElementsAre(Role::kViewer, Role::kAgent));
}

TEST(Grants, ARoleHoldsInTheTenantOfItsGrant_AndGrantsAddUp) {
  Grants grants({});
  for (const char* const grant : {"uid:0=viewer@vision", "uid:0=viewer@nlp", "uid:0=operator@vision",
                                  "cert:all=submitter@*", "cert:gpu-*=agent@nlp"}) {
    ASSERT_TRUE(grants.Add(grant).ok()) << grant;
  }
  const Identity root = grants.Of({.uid = 0});
  EXPECT_EQ(root.TenantsWith(Right::kRead), Tenants({"nlp", "vision"}));
  EXPECT_EQ(root.TenantsWith(Right::kOperate), Tenants({"vision"}));
  EXPECT_EQ(root.TenantsWith(Right::kWork), Tenants());
  EXPECT_EQ(grants.OfCertificate("all").TenantsWith(Right::kSubmit), Tenants::All());
  EXPECT_EQ(grants.OfCertificate("gpu-1").TenantsWith(Right::kWork), Tenants({"nlp"}));
}

TEST(Grants, WithoutATenant_ViewersAndSubmittersBelongToTheDefaultTenant_OthersToAll) {
  for (const auto& [role, usual] : std::map<std::string, Tenants>{{"viewer", Tenants({"default"})},
                                                                  {"submitter", Tenants({"default"})},
                                                                  {"operator", Tenants::All()},
                                                                  {"admin", Tenants::All()},
                                                                  {"agent", Tenants::All()},
                                                                  {"scraper", Tenants::All()}}) {
    Grants grants({});
    ASSERT_TRUE(grants.Add("uid:0=" + role).ok());
    EXPECT_EQ(grants.Of({.uid = 0}).roles.begin()->second, usual) << role;
  }
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
        "uid:4294967296=viewer", "host:x=viewer", "user:root=", "user:root=Viewer", "user:root=viewer@",
        "user:root=viewer@Vision", "user:root=viewer@a@b", "user:root=viewer@a b", "user:root=@vision",
        "user:root=admin@vision"}) {
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
  EXPECT_THAT(grants.OfCertificate("gpu-1").role_names(), ElementsAre(Role::kViewer, Role::kAgent));
  EXPECT_EQ(grants.OfCertificate("gpu-1").name, "cert:gpu-1");
  EXPECT_EQ(grants.OfCertificate("gpu-1").workers, "gpu-1");
  EXPECT_THAT(grants.OfCertificate("bob").roles, IsEmpty());
  for (const char* const name : {"", "*", "alice ", "al\nice", "\xc3\xa4"}) {
    EXPECT_EQ(grants.OfCertificate(name).name, "") << name;
  }
  EXPECT_EQ(ReasonOf(grants.Add("cert:Alice Smith=viewer")), "BAD_GRANT");
}

TEST(Grants, AreReplacedAsAWhole) {
  Grants grants({0});
  ASSERT_TRUE(grants.Add("uid:4000000001=viewer").ok());
  const Grants before = grants;
  Grants next({0});
  ASSERT_TRUE(next.Add("uid:4000000002=viewer").ok());
  grants = next;
  EXPECT_TRUE(grants.RolesOf({.uid = 4'000'000'001}).empty());
  EXPECT_EQ(grants.RolesOf({.uid = 4'000'000'002}).size(), 1u);
  EXPECT_EQ(before.RolesOf({.uid = 4'000'000'001}).size(), 1u) << "a copy does not change";
}

}  // namespace
}  // namespace ampd::server
