#include "worker/agent/data_roots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace ampd::agent {
namespace {

TEST(ParseDataRoots, TakesANameTenantsAndAFolder) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const auto roots = ParseDataRoots({"all=" + folder, "some@nlp,vision=" + folder});
  ASSERT_TRUE(roots.ok()) << roots.status();
  ASSERT_EQ(roots->size(), 2u);
  EXPECT_EQ(roots->at("all").folder, folder);
  EXPECT_TRUE(roots->at("all").tenants.all());
  EXPECT_EQ(roots->at("some").tenants, Tenants({"nlp", "vision"}));
}

TEST(ParseDataRoots, NamesTheValueThatIsWrong) {
  for (const std::string& value : {std::string("x"), std::string("=/tmp"), std::string("a=/no/such/folder"),
                                   std::string("@nlp=/tmp"), std::string("a@=/tmp"), std::string("a/b=/tmp"),
                                   std::string("a@Nlp=/tmp"), std::string("a@nlp,=/tmp"), std::string("a@*=/tmp")}) {
    EXPECT_THAT(std::string(ParseDataRoots({value}).status().message()), testing::StartsWith("--data-root " + value))
        << value;
  }
}

TEST(ParseDataRoots, RefusesWhatIsNotUtf8) {
  for (const char* value : {"caf\xe9=/tmp", "a=/tmp/../tmp/caf\xe9/.."}) {
    EXPECT_THAT(std::string(ParseDataRoots({value}).status().message()),
                testing::AllOf(testing::StartsWith("--data-root "), testing::HasSubstr("caf\\xe9"),
                               testing::HasSubstr(" is not UTF-8; give the data root a name and a path in UTF-8")));
  }
}

TEST(ParseDataRoots, RefusesANameForTwoFolders) {
  EXPECT_THAT(
      std::string(ParseDataRoots({"a=/tmp", "b=/", "a=/"}).status().message()),
      testing::HasSubstr("--data-root a=/: the name 'a' already stands for /tmp; give each folder its own name"));
  EXPECT_TRUE(ParseDataRoots({"a=/tmp", "a=/tmp"}).ok());
}

TEST(ParseTenants, NamesTheValueThatIsWrong) {
  EXPECT_THAT(*ParseTenants({"nlp", "vision"}), testing::ElementsAre("nlp", "vision"));
  EXPECT_THAT(std::string(ParseTenants({"nlp", "*"}).status().message()), testing::StartsWith("--tenant *: "));
}

}  // namespace
}  // namespace ampd::agent
