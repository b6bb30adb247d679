#include "server/oidc/key_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/simulated_clock.h"
#include "tests/server/oidc/test_issuer.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string JwksOf(const std::vector<std::string>& ids) {
  json keys = json::array();
  for (const std::string& id : ids) {
    keys.push_back(TestKey(id, "P-256").Jwk());
  }
  return json{{"keys", keys}}.dump();
}

constexpr char kDiscovery[] = "https://issuer.test/.well-known/openid-configuration";

// A KeySet whose HTTPS requests are answered from a map.
class Fetched {
 public:
  explicit Fetched(const std::string& source, const std::string& issuer = "https://issuer.test")
      : keys({.issuer = issuer,
              .source = source,
              .clock = &clock,
              .get = [this](const HttpsRequest& request) -> absl::StatusOr<std::string> {
                requests.push_back(request.url);
                const auto found = pages.find(request.url);
                return found == pages.end() ? absl::UnavailableError("no route to host")
                                            : absl::StatusOr<std::string>(found->second);
              },
              .log = [this](const std::string& line) { log.push_back(line); }}) {}

  bool Has(const std::string& id) const { return keys.keys() != nullptr && keys.keys()->Find(id) != nullptr; }
  void PassTime(absl::Duration time) {
    clock.Advance(time);
    keys.RefreshIfDue();
  }

  SimulatedClock clock;
  std::map<std::string, std::string> pages;
  std::vector<std::string> requests;
  std::vector<std::string> log;
  KeySet keys;
};

TEST(KeySet, FetchesAUrlEveryTenMinutes) {
  Fetched fetched("https://keys.test/jwks");
  fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
  fetched.keys.RefreshIfDue();
  EXPECT_TRUE(fetched.Has("a"));
  fetched.pages["https://keys.test/jwks"] = JwksOf({"b"});
  fetched.PassTime(absl::Minutes(9));
  EXPECT_TRUE(fetched.Has("a"));
  fetched.PassTime(absl::Minutes(1));
  EXPECT_TRUE(fetched.Has("b"));
  EXPECT_FALSE(fetched.Has("a"));
  EXPECT_EQ(fetched.requests.size(), 2U);
  EXPECT_THAT(fetched.log, IsEmpty());
}

TEST(KeySet, FetchesForAnUnknownKeyAtMostOnceAMinute) {
  Fetched fetched("https://keys.test/jwks");
  fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
  fetched.keys.RefreshIfDue();
  for (int second = 1; second < 60; ++second) {
    fetched.clock.Advance(absl::Seconds(1));
    EXPECT_FALSE(fetched.keys.RequestFetch());
    fetched.keys.RefreshIfDue();
  }
  EXPECT_EQ(fetched.requests.size(), 1U);
  fetched.pages["https://keys.test/jwks"] = JwksOf({"b"});
  fetched.clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(fetched.keys.RequestFetch());
  EXPECT_TRUE(fetched.keys.RequestFetch()) << "it is under way";
  fetched.keys.RefreshIfDue();
  EXPECT_TRUE(fetched.Has("b"));
  EXPECT_FALSE(fetched.keys.RequestFetch());
  fetched.keys.RefreshIfDue();
  EXPECT_EQ(fetched.requests.size(), 2U);
}

TEST(KeySet, KeepsItsKeysWhileNoneCanBeFetched_AndLogsThatOnce) {
  Fetched fetched("https://keys.test/jwks");
  fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
  fetched.keys.RefreshIfDue();
  const auto before = fetched.keys.keys();
  for (const char* const bad : {"", "<html>", R"({"keys":[]})"}) {
    fetched.pages["https://keys.test/jwks"] = bad;
    fetched.PassTime(absl::Minutes(10));
  }
  fetched.pages.clear();
  fetched.PassTime(absl::Minutes(1));
  EXPECT_EQ(fetched.keys.keys(), before);
  EXPECT_EQ(fetched.requests.size(), 5U) << "a minute after a failure it tries again";
  EXPECT_THAT(fetched.log, ElementsAre(HasSubstr("those of before stay")));
  fetched.pages["https://keys.test/jwks"] = JwksOf({"b"});
  fetched.PassTime(absl::Minutes(1));
  EXPECT_TRUE(fetched.Has("b"));
  EXPECT_THAT(fetched.log, ElementsAre(HasSubstr("those of before stay"), HasSubstr("again")));
}

TEST(KeySet, HasNoKeysUntilTheFirstFetchSucceeds) {
  Fetched fetched("https://keys.test/jwks");
  fetched.keys.RefreshIfDue();
  EXPECT_EQ(fetched.keys.keys(), nullptr);
  fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
  fetched.PassTime(absl::Minutes(1));
  EXPECT_TRUE(fetched.Has("a"));
}

TEST(KeySet, TheSameKeysAreTheSameObject) {
  Fetched fetched("https://keys.test/jwks");
  fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
  fetched.keys.RefreshIfDue();
  const auto before = fetched.keys.keys();
  fetched.PassTime(absl::Minutes(10));
  EXPECT_EQ(fetched.requests.size(), 2U);
  EXPECT_EQ(fetched.keys.keys(), before);
}

TEST(KeySet, WithoutASourceTheIssuerNamesTheUrl) {
  for (const char* const issuer : {"https://issuer.test", "https://issuer.test/"}) {
    Fetched fetched("", issuer);
    fetched.pages[kDiscovery] = json{{"issuer", issuer}, {"jwks_uri", "https://keys.test/jwks"}}.dump();
    fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
    fetched.keys.RefreshIfDue();
    EXPECT_TRUE(fetched.Has("a"));
    EXPECT_THAT(fetched.requests, ElementsAre(kDiscovery, "https://keys.test/jwks"));
  }
}

TEST(KeySet, TakesNoDescriptionOfAnotherIssuer_AndNoUrlWithoutTls) {
  for (const std::string& bad : {json{{"issuer", "https://evil.test"}, {"jwks_uri", "https://keys.test/jwks"}}.dump(),
                                 json{{"jwks_uri", "https://keys.test/jwks"}}.dump(),
                                 json{{"issuer", "https://issuer.test"}, {"jwks_uri", "http://keys.test/jwks"}}.dump(),
                                 json{{"issuer", "https://issuer.test"}, {"jwks_uri", "file:///etc/jwks"}}.dump(),
                                 json{{"issuer", "https://issuer.test"}, {"jwks_uri", 1}}.dump(),
                                 json{{"issuer", "https://issuer.test"}}.dump(), std::string("[]"), std::string()}) {
    Fetched fetched("");
    fetched.pages[kDiscovery] = bad;
    fetched.pages["https://keys.test/jwks"] = JwksOf({"a"});
    fetched.keys.RefreshIfDue();
    EXPECT_EQ(fetched.keys.keys(), nullptr) << bad;
    EXPECT_THAT(fetched.requests, ElementsAre(kDiscovery)) << bad;
  }
}

TEST(KeySet, ReadsAFileAgainWhenItChanges) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.Path("jwks"), JwksOf({"a"})).ok());
  Fetched fetched(folder.Path("jwks"));
  fetched.keys.RefreshIfDue();
  EXPECT_TRUE(fetched.Has("a"));
  EXPECT_FALSE(fetched.keys.RequestFetch());
  ASSERT_TRUE(WriteFileAtomically(folder.Path("jwks"), JwksOf({"b"})).ok());
  fetched.PassTime(absl::Seconds(1));
  EXPECT_TRUE(fetched.Has("b"));
  ASSERT_TRUE(WriteFileAtomically(folder.Path("jwks"), "nothing").ok());
  fetched.PassTime(absl::Seconds(1));
  fetched.PassTime(absl::Seconds(1));
  EXPECT_TRUE(fetched.Has("b"));
  EXPECT_THAT(fetched.log, ElementsAre(HasSubstr(folder.Path("jwks"))));
  EXPECT_THAT(fetched.requests, IsEmpty());
}

}  // namespace
}  // namespace ampd::server
