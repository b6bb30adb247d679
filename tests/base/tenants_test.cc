#include "base/api/tenants.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace ampd {
namespace {

TEST(Tenants, AllContainsEveryTenant_AndAddingKeepsIt) {
  Tenants some({"vision"});
  EXPECT_TRUE(some.Has("vision"));
  EXPECT_FALSE(some.Has("nlp"));
  EXPECT_FALSE(some.Has(kAllTenants));
  some.Add(Tenants::All());
  EXPECT_TRUE(some.all());
  EXPECT_TRUE(some.Has("nlp"));
  EXPECT_EQ(some, Tenants::All());
  some.Add(Tenants({"nlp"}));
  EXPECT_EQ(some, Tenants::All());
  EXPECT_TRUE(Tenants({"vision", "*"}).all());
}

TEST(Tenants, ContainmentIsThatOfSets) {
  const Tenants none, one({"a"}), two({"a", "b"});
  EXPECT_TRUE(two.Contain(one));
  EXPECT_FALSE(one.Contain(two));
  EXPECT_TRUE(one.Contain(none));
  EXPECT_TRUE(Tenants::All().Contain(two));
  EXPECT_FALSE(two.Contain(Tenants::All()));
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(Tenants::All().empty());
}

TEST(Tenants, AreShownToPeople) {
  EXPECT_EQ(Tenants().ToString(), "no tenant");
  EXPECT_EQ(Tenants({"nlp"}).ToString(), "nlp");
  EXPECT_EQ(Tenants({"c", "b", "a"}).ToString(), "a, b and c");
  EXPECT_EQ(Tenants::All().ToString(), "all tenants");
}

TEST(CheckTenantName, AcceptsLowerCaseWordsOnly) {
  for (const std::string& name : std::vector<std::string>{"a", "default", "team-7", std::string(63, 'a')}) {
    EXPECT_TRUE(CheckTenantName("tenant", name).ok()) << name;
  }
  for (const std::string& name : std::vector<std::string>{"", "*", "A", "7a", "-a", "a_b", "a.b", "a/b", "a b", "a\n",
                                                          "\xc3\xa4", std::string(64, 'a')}) {
    EXPECT_EQ(ReasonOf(CheckTenantName("tenant", name)), "INVALID_FIELDS") << name;
  }
}

TEST(TenantOrDefault, RecordsWithoutATenantBelongToTheDefaultOne) {
  EXPECT_EQ(TenantOrDefault(""), "default");
  EXPECT_EQ(TenantOrDefault("nlp"), "nlp");
}

}  // namespace
}  // namespace ampd
