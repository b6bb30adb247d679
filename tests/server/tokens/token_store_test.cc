#include "server/tokens/token_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/simulated_clock.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TokenStoreTest : public testing::Test {
 protected:
  TokenStoreTest() { clock_.SetNow(absl::FromUnixSeconds(1'800'000'000)); }

  std::unique_ptr<TokenStore> Open() {
    absl::StatusOr<std::unique_ptr<TokenStore>> store =
        TokenStore::Open({.path = folder_.Path("tokens.db"), .clock = &clock_, .random = &SystemRandom()});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  static v1::CreateTokenRequest Request(const std::string& name, v1::Role role = v1::SUBMITTER) {
    v1::CreateTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    return request;
  }

  v1::CreateTokenRequest ExpiringIn(absl::Duration time, const std::string& name) {
    v1::CreateTokenRequest request = Request(name);
    request.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(clock_.Now() + time));
    return request;
  }

  TemporaryFolder folder_;
  SimulatedClock clock_;
};

TEST_F(TokenStoreTest, ATokenIsFoundByItsSecretAlone) {
  const auto store = Open();
  const auto created = store->Create(Request("ci"), "user:root");
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->token().name(), "ci");
  EXPECT_EQ(created->token().created_by(), "user:root");
  EXPECT_EQ(created->token().create_time().seconds(), 1'800'000'000);
  EXPECT_FALSE(created->token().has_expire_time());
  EXPECT_EQ(created->secret().size(), 57u);
  EXPECT_TRUE(created->secret().starts_with("ampd_"));
  const auto found = store->Find(created->secret());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->SerializeAsString(), created->token().SerializeAsString());
  for (const std::string& other : {std::string(), std::string("ci"), created->secret().substr(1),
                                   created->secret() + "a", absl::StrCat(" ", created->secret())}) {
    EXPECT_EQ(ReasonOf(store->Find(other).status()), "TOKEN_UNKNOWN") << other;
  }
}

TEST_F(TokenStoreTest, NoTwoSecretsAreAlike) {
  const auto store = Open();
  std::set<std::string> secrets;
  for (int i = 0; i < 200; ++i) {
    secrets.insert(store->Create(Request(absl::StrCat("t", i)), "")->secret());
  }
  EXPECT_EQ(secrets.size(), 200u);
}

TEST_F(TokenStoreTest, TokensOutliveTheServer_AndRevokedOnesDoNotComeBack) {
  std::string kept, revoked;
  {
    const auto store = Open();
    kept = store->Create(Request("kept", v1::VIEWER), "")->secret();
    revoked = store->Create(Request("revoked"), "")->secret();
    ASSERT_TRUE(store->Revoke("revoked").ok());
    EXPECT_EQ(ReasonOf(store->Find(revoked).status()), "TOKEN_UNKNOWN");
    EXPECT_EQ(ReasonOf(store->Revoke("revoked")), "TOKEN_NOT_FOUND");
  }
  const auto store = Open();
  EXPECT_EQ(store->Find(kept)->role(), v1::VIEWER);
  EXPECT_EQ(ReasonOf(store->Find(revoked).status()), "TOKEN_UNKNOWN");
  // The name can be used again, and the old secret must not be valid for the new token.
  EXPECT_TRUE(store->Create(Request("revoked"), "").ok());
  EXPECT_EQ(ReasonOf(store->Find(revoked).status()), "TOKEN_UNKNOWN");
}

TEST_F(TokenStoreTest, TheFilesHoldNoSecret) {
  const auto store = Open();
  const std::string secret = store->Create(Request("ci"), "")->secret();
  int num_files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(folder_.Path("tokens.db")).parent_path())) {
    const auto bytes = ReadFile(entry.path().string(), 64 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_FALSE(absl::StrContains(*bytes, secret.substr(5, 20))) << entry.path();
    EXPECT_EQ(entry.status().permissions(), std::filesystem::perms(0600)) << entry.path();
    ++num_files;
  }
  EXPECT_GE(num_files, 1);
}

TEST_F(TokenStoreTest, ATokenIsRefusedFromItsExpiryOn) {
  const auto store = Open();
  const std::string secret = store->Create(ExpiringIn(absl::Hours(1), "hour"), "")->secret();
  clock_.SetNow(clock_.Now() + absl::Minutes(59));
  EXPECT_TRUE(store->Find(secret).ok());
  clock_.SetNow(clock_.Now() + absl::Minutes(1));
  const absl::Status expired = store->Find(secret).status();
  EXPECT_EQ(ReasonOf(expired), "TOKEN_EXPIRED");
  EXPECT_THAT(std::string(expired.message()), HasSubstr("hour expired at 2027-01-15 09:00:00 UTC"));
}

TEST_F(TokenStoreTest, EveryFaultOfARequestIsNamed) {
  const auto store = Open();
  const auto fields = [&store](const v1::CreateTokenRequest& request) {
    std::vector<std::string> names;
    for (const FieldViolation& violation : ViolationsOf(store->Create(request, "").status())) {
      names.push_back(violation.field);
    }
    return names;
  };
  for (const std::string& name : {std::string(), std::string("Ci"), std::string("1a"), std::string("-a"),
                                  std::string("a b"), std::string("a\n"), std::string("ä"), std::string(64, 'a')}) {
    EXPECT_THAT(fields(Request(name)), ElementsAre("name")) << name;
  }
  EXPECT_THAT(fields(Request(std::string(63, 'a'))), ElementsAre());
  EXPECT_THAT(fields(Request("role", v1::ROLE_UNSPECIFIED)), ElementsAre("role"));
  EXPECT_THAT(fields(Request("role", static_cast<v1::Role>(99))), ElementsAre("role"));
  EXPECT_THAT(fields(Request("agent", v1::AGENT)), ElementsAre("worker"));
  for (const char* const worker : {"a b", "a\n", "[a]", "w?"}) {
    v1::CreateTokenRequest request = Request("agent", v1::AGENT);
    request.set_worker(worker);
    EXPECT_THAT(fields(request), ElementsAre("worker")) << worker;
  }
  v1::CreateTokenRequest viewer = Request("viewer", v1::VIEWER);
  viewer.set_worker("w1");
  EXPECT_THAT(fields(viewer), ElementsAre("worker"));
  EXPECT_THAT(fields(ExpiringIn(absl::ZeroDuration(), "now")), ElementsAre("expire_time"));
  v1::CreateTokenRequest all;
  all.mutable_expire_time();
  EXPECT_THAT(fields(all), ElementsAre("name", "role", "expire_time"));
}

TEST_F(TokenStoreTest, ANameIsTakenUntilItsTokenIsRevoked) {
  const auto store = Open();
  ASSERT_TRUE(store->Create(Request("ci"), "").ok());
  EXPECT_EQ(ReasonOf(store->Create(Request("ci"), "").status()), "TOKEN_EXISTS");
}

TEST_F(TokenStoreTest, ListsArePagesByName) {
  const auto store = Open();
  for (const char* const name : {"d", "a", "c", "b"}) {
    ASSERT_TRUE(store->Create(Request(name), "").ok());
  }
  v1::ListTokensRequest request;
  request.set_page_size(3);
  const auto names = [](const v1::ListTokensResponse& response) {
    std::vector<std::string> found;
    for (const v1::Token& token : response.tokens()) {
      found.push_back(token.name());
    }
    return found;
  };
  const auto first = store->List(request);
  EXPECT_THAT(names(*first), ElementsAre("a", "b", "c"));
  request.set_page_token(first->next_page_token());
  const auto second = store->List(request);
  EXPECT_THAT(names(*second), ElementsAre("d"));
  EXPECT_EQ(second->next_page_token(), "");
  request.set_page_size(-1);
  EXPECT_EQ(ReasonOf(store->List(request).status()), "INVALID_FIELDS");
}

TEST_F(TokenStoreTest, AFileOfANewerServerIsRefused) {
  Open();
  auto database = SqliteDatabase::Open(folder_.Path("tokens.db"), /*create=*/false);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(database->Execute("PRAGMA user_version=2").ok());
  const auto store = TokenStore::Open({.path = folder_.Path("tokens.db"), .clock = &clock_, .random = &SystemRandom()});
  EXPECT_EQ(ReasonOf(store.status()), "NEWER_SCHEMA");
}

}  // namespace
}  // namespace ampd::server
