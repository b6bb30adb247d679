#include "server/oidc/claim_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ClaimMapping Mapping(const std::vector<std::string>& roles) {
  ClaimMapping mapping;
  for (const std::string& role : roles) {
    const absl::Status added = mapping.AddRole(role);
    EXPECT_TRUE(added.ok()) << added;
  }
  return mapping;
}

// Returns the identity as text, such as "oidc:alice viewer@default operator@all tenants", or the error's reason.
std::string Show(const ClaimMapping& mapping, const json& claims) {
  const absl::StatusOr<Identity> identity = mapping.IdentityOf(claims);
  if (!identity.ok()) {
    return ReasonOf(identity.status());
  }
  std::string text = identity->name;
  for (const auto& [role, tenants] : identity->roles) {
    absl::StrAppend(&text, " ", std::string(RoleName(role)), "@", tenants.ToString());
  }
  return text;
}

TEST(ClaimMapping, GivesTheRolesWhoseValuesAreThere) {
  const ClaimMapping mapping = Mapping({"groups:ml-vision=submitter@vision", "groups:ml-ops=operator",
                                        "groups:ml-text=submitter@text", "department:ml=viewer", "groups:root=admin"});
  EXPECT_EQ(Show(mapping, {{"sub", "alice"}, {"groups", {"ml-vision", "ml-text"}}}),
            "oidc:alice submitter@text and vision");
  EXPECT_EQ(Show(mapping, {{"sub", "alice"}, {"groups", "ml-ops"}, {"department", "ml"}}),
            "oidc:alice viewer@default operator@all tenants");
  EXPECT_EQ(Show(mapping, {{"sub", "alice"}, {"groups", {"root"}}}), "oidc:alice admin@all tenants");
  EXPECT_EQ(Show(mapping, {{"sub", "alice"}}), "oidc:alice");
}

TEST(ClaimMapping, TakesNoOtherValues) {
  const ClaimMapping mapping = Mapping({"groups:ml-[a]?=submitter"});
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"groups", "ml-[a]?"}}), "oidc:a submitter@default") << "no glob without a *";
  for (const json& groups :
       {json("ml-ab"), json("ML-[A]?"), json(" ml-[a]?"), json("ml-[a]?\n"), json(""), json(1), json(),
        json{{"ml-[a]?", true}}, json::array({json::array({"ml-[a]?"})}), json("x,ml-[a]?")}) {
    EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"groups", groups}}), "oidc:a") << groups;
  }
}

TEST(ClaimMapping, InAValueAStarStandsForAnyCharacters) {
  const ClaimMapping mapping = Mapping({"email:*@example.com=viewer"});
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"email", "a@example.com"}}), "oidc:a viewer@default");
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"email", "a@example.com.evil.test"}}), "oidc:a");
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"email", "a@exampleXcom"}}), "oidc:a");
}

TEST(ClaimMapping, ANameOfAClaimAndAValueMayHaveColons) {
  const ClaimMapping mapping = Mapping({R"(cognito\:groups:urn:ml=a=viewer)"});
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"cognito:groups", {"urn:ml=a"}}}), "oidc:a viewer@default");
}

TEST(ClaimMapping, TheTenantClaimIsForRolesThatNameNoTenant) {
  ClaimMapping mapping = Mapping({"g:s=submitter", "g:o=operator", "g:f=viewer@fixed", "g:a=admin"});
  mapping.set_tenant_claim("team");
  const json all = {"s", "o", "f"};
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"g", all}, {"team", "vision"}}),
            "oidc:a viewer@fixed submitter@vision operator@vision");
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"g", "s"}, {"team", {"vision", "text"}}}),
            "oidc:a submitter@text and vision");
  for (const json& team : {json("*"), json(""), json("Vision"), json(1), json(), json::array(), json("a b")}) {
    EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"g", all}, {"team", team}}), "oidc:a viewer@fixed") << team;
  }
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"g", all}}), "oidc:a viewer@fixed") << "no tenant, no role";
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"g", "a"}, {"team", "vision"}}), "oidc:a admin@all tenants");
}

TEST(ClaimMapping, NamesThePersonByAPlainNameOnly) {
  ClaimMapping mapping = Mapping({"g:x=viewer"});
  EXPECT_EQ(Show(mapping, {{"sub", "a-B_3.c@x"}}), "oidc:a-B_3.c@x");
  EXPECT_EQ(Show(mapping, {{"sub", std::string(128, 'a')}}), "oidc:" + std::string(128, 'a'));
  for (const json& name : {json("auth0|1"), json("a b"), json("a\n"), json(""), json("ä"), json(1), json(), json("a:b"),
                           json("*"), json(std::string(129, 'a')), json(std::string("a\0b", 3))}) {
    EXPECT_EQ(Show(mapping, {{"sub", name}}), "JWT_NAME") << name;
  }
  mapping.set_name_claim("login");
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"login", "alice"}}), "oidc:alice");
  EXPECT_EQ(Show(mapping, {{"sub", "a"}}), "JWT_NAME");
}

TEST(ClaimMapping, AnEmailThatIsNotVerifiedIsNoName) {
  ClaimMapping mapping = Mapping({"g:x=viewer"});
  mapping.set_name_claim("email");
  EXPECT_EQ(Show(mapping, {{"email", "a@x.org"}, {"email_verified", true}}), "oidc:a@x.org");
  EXPECT_EQ(Show(mapping, {{"email", "a@x.org"}, {"email_verified", "true"}}), "oidc:a@x.org");
  EXPECT_EQ(Show(mapping, {{"email", "a@x.org"}}), "oidc:a@x.org") << "not every provider says it";
  for (const json& verified : {json(false), json("false"), json(), json(1)}) {
    EXPECT_EQ(Show(mapping, {{"email", "a@x.org"}, {"email_verified", verified}}), "JWT_NAME") << verified;
  }
}

TEST(ClaimMapping, AnEmailThatIsNotVerifiedGivesNoRole) {
  ClaimMapping mapping = Mapping({"email:*@x.org=viewer"});
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"email", "a@x.org"}, {"email_verified", true}}), "oidc:a viewer@default");
  EXPECT_EQ(Show(mapping, {{"sub", "a"}, {"email", "a@x.org"}, {"email_verified", false}}), "oidc:a");
}

TEST(ClaimMapping, AnAgentIsTheWorkerOfItsName) {
  const auto identity = Mapping({"g:x=agent"}).IdentityOf({{"sub", "gpu-1"}, {"g", "x"}});
  EXPECT_EQ(identity->workers, "gpu-1");
}

TEST(ClaimMapping, RefusesRulesOfAnotherForm) {
  for (const auto& [rule, why] :
       std::vector<std::pair<std::string, std::string>>{{"", "form"},
                                                        {"groups=viewer", "form"},
                                                        {"groups:x", "form"},
                                                        {":x=viewer", "form"},
                                                        {"groups:=viewer", "form"},
                                                        {"groups:x=", "no role ''"},
                                                        {"groups:x=boss", "no role 'boss'"},
                                                        {"groups:x=viewer@", "name of a tenant"},
                                                        {"groups:x=viewer@A", "name of a tenant"},
                                                        {"groups:x=admin@vision", "all tenants"},
                                                        {"groups:x*=admin", "exact"},
                                                        {"groups:x*[ab]=viewer", "cannot also"}}) {
    const absl::Status status = ClaimMapping().AddRole(rule);
    EXPECT_EQ(ReasonOf(status), "BAD_OIDC") << rule;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << rule;
  }
}

}  // namespace
}  // namespace ampd::server
