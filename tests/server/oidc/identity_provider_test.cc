#include "server/oidc/identity_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/io/file.h"
#include "base/simulated_clock.h"
#include "tests/server/oidc/test_issuer.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

OidcConfig Config() {
  OidcConfig config;
  config.issuer = TestIssuer::kUrl;
  config.audience = TestIssuer::kAudience;
  config.keys = "https://keys.test/jwks";
  EXPECT_TRUE(config.claims.AddRole("groups:ml-vision=submitter@vision").ok());
  return config;
}

// An IdentityProvider whose keys come from a test issuer.
class Provided {
 public:
  Provided()
      : provider({.config = Config(),
                  .clock = &clock,
                  .get = [this](const HttpsRequest&) -> absl::StatusOr<std::string> {
                    return is_reachable ? absl::StatusOr<std::string>(issuer.Jwks())
                                        : absl::UnavailableError("no route");
                  },
                  .log = [this](const std::string& line) { log.push_back(line); }}) {}

  std::string Good() { return issuer.Issue(TestIssuer::Claims(clock.Now())); }
  std::string ReasonFor(const std::string& jwt) {
    const auto identity = provider.Identify(jwt);
    return identity.ok() ? identity->name : ReasonOf(identity.status());
  }

  SimulatedClock clock;
  TestIssuer issuer;
  bool is_reachable = true;
  std::vector<std::string> log;
  IdentityProvider provider;
};

TEST(IdentityProvider, KnowsTheHoldersOfGoodJwts) {
  Provided provided;
  provided.provider.keys().RefreshIfDue();
  const auto identity = provided.provider.Identify(provided.Good());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->name, "oidc:alice");
  EXPECT_EQ(identity->roles, (std::map<Role, Tenants>{{Role::kSubmitter, Tenants({"vision"})}}));
}

TEST(IdentityProvider, ARememberedJwtExpiresToo) {
  Provided provided;
  provided.provider.keys().RefreshIfDue();
  const std::string jwt = provided.Good();
  EXPECT_EQ(provided.ReasonFor(jwt), "oidc:alice");
  provided.clock.Advance(absl::Minutes(59));
  EXPECT_EQ(provided.ReasonFor(jwt), "oidc:alice");
  provided.clock.Advance(absl::Minutes(1));
  EXPECT_EQ(provided.ReasonFor(jwt), "JWT_EXPIRED");
}

TEST(IdentityProvider, ARememberedJwtGoesWithItsKey) {
  Provided provided;
  provided.provider.keys().RefreshIfDue();
  const std::string jwt = provided.Good();
  EXPECT_EQ(provided.ReasonFor(jwt), "oidc:alice");
  provided.issuer.keys()[0] = TestKey("rsa-2");
  provided.clock.Advance(absl::Minutes(10));
  provided.provider.keys().RefreshIfDue();
  EXPECT_EQ(provided.ReasonFor(jwt), "JWT_INVALID");
  EXPECT_EQ(provided.ReasonFor(provided.Good()), "oidc:alice");
}

TEST(IdentityProvider, AnswersThatKeysAreBeingFetched_AndThenWithThem) {
  Provided provided;
  const std::string first = provided.Good();
  const auto early = provided.provider.Identify(first);
  EXPECT_EQ(ReasonOf(early.status()), "JWT_KEYS_MISSING");
  EXPECT_EQ(early.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RetryDelayOf(early.status()).has_value());
  provided.provider.keys().RefreshIfDue();
  EXPECT_EQ(provided.ReasonFor(first), "oidc:alice");
  provided.issuer.keys()[0] = TestKey("rsa-2");
  provided.clock.Advance(absl::Minutes(2));
  const std::string next = provided.Good();
  EXPECT_EQ(provided.ReasonFor(next), "JWT_KEYS_MISSING");
  provided.provider.keys().RefreshIfDue();
  EXPECT_EQ(provided.ReasonFor(next), "oidc:alice");
  EXPECT_EQ(
      provided.ReasonFor(TestIssuer::Issue(TestIssuer::Claims(provided.clock.Now()), TestKey("made-up"), "RS256")),
      "JWT_INVALID")
      << "within a minute there is no other fetch";
}

TEST(IdentityProvider, LivesOnWithItsKeysWhileTheIssuerIsOutOfReach) {
  Provided provided;
  provided.provider.keys().RefreshIfDue();
  provided.is_reachable = false;
  for (int i = 0; i < 100; ++i) {
    provided.clock.Advance(absl::Minutes(10));
    provided.provider.keys().RefreshIfDue();
    EXPECT_EQ(provided.ReasonFor(provided.Good()), "oidc:alice");
  }
  EXPECT_EQ(provided.log.size(), 1U);
}

TEST(IdentityProvider, TellsTheCallerNothingAndTheLogWhy_OnceAMinute) {
  Provided provided;
  provided.provider.keys().RefreshIfDue();
  json claims = TestIssuer::Claims(provided.clock.Now());
  claims["aud"] = "planted";
  const std::string jwt = provided.issuer.Issue(claims);
  const std::string forged = TestIssuer::Issue(claims, TestKey("rsa-1"), "RS256");
  const absl::Status of_audience = provided.provider.Identify(jwt).status();
  const absl::Status of_signature = provided.provider.Identify(forged).status();
  EXPECT_EQ(ReasonOf(of_audience), "JWT_INVALID");
  EXPECT_EQ(of_audience, of_signature);
  EXPECT_THAT(provided.log, ElementsAre(HasSubstr("--oidc-audience")));
  provided.clock.Advance(absl::Minutes(1));
  provided.ReasonFor(forged);
  EXPECT_THAT(provided.log, ElementsAre(HasSubstr("--oidc-audience"), HasSubstr("signature")));
  EXPECT_THAT(provided.log[0], Not(HasSubstr("planted")));
}

TEST(IdentityProvider, ForgetsRememberedJwtsWhenThereAreTooMany) {
  Provided provided;
  provided.issuer.keys()[0] = TestKey("ec", "P-256");  // Signing with this key is fast.
  provided.provider.keys().RefreshIfDue();
  json claims = TestIssuer::Claims(provided.clock.Now());
  for (size_t i = 0; i < IdentityProvider::kMaxRemembered + 5; ++i) {
    claims["jti"] = i;
    ASSERT_EQ(provided.ReasonFor(TestIssuer::Issue(claims, provided.issuer.keys()[0], "ES256")), "oidc:alice");
    ASSERT_EQ(provided.provider.num_remembered(),
              i < IdentityProvider::kMaxRemembered ? i + 1 : i + 1 - IdentityProvider::kMaxRemembered);
  }
}

std::string WhatIsWrong(const std::function<void(OidcConfig*)>& change) {
  OidcConfig config = Config();
  change(&config);
  const absl::Status status = CheckOidcConfig(config);
  EXPECT_TRUE(status.ok() || ReasonOf(status) == "BAD_OIDC") << status;
  return std::string(status.message());
}

TEST(OidcConfig, NamesTheFlagThatLacksOrIsWrong) {
  const TemporaryFolder folder;
  EXPECT_EQ(WhatIsWrong([](OidcConfig*) {}), "");
  EXPECT_EQ(WhatIsWrong([](OidcConfig* config) { *config = OidcConfig(); }), "");
  EXPECT_EQ(WhatIsWrong([](OidcConfig* config) { config->keys = ""; }), "");
  EXPECT_THAT(WhatIsWrong([](OidcConfig* config) { config->issuer = ""; }), HasSubstr("--oidc-issuer"));
  EXPECT_THAT(WhatIsWrong([](OidcConfig* config) { config->issuer = "http://issuer.test"; }), HasSubstr("https://"));
  EXPECT_THAT(WhatIsWrong([](OidcConfig* config) { config->audience = ""; }), HasSubstr("--oidc-audience"));
  EXPECT_THAT(WhatIsWrong([](OidcConfig* config) { config->claims = ClaimMapping(); }), HasSubstr("--oidc-role"));
  EXPECT_THAT(WhatIsWrong([](OidcConfig* config) { config->keys = "http://keys.test"; }), HasSubstr("--oidc-keys"));
  EXPECT_THAT(WhatIsWrong([&](OidcConfig* config) { config->keys = folder.Path("jwks"); }), HasSubstr("--oidc-keys"));
  EXPECT_THAT(WhatIsWrong([&](OidcConfig* config) { config->ca = folder.Path("ca"); }), HasSubstr("--oidc-ca"));
  ASSERT_TRUE(WriteFileAtomically(folder.Path("jwks"), "{}").ok());
  EXPECT_THAT(WhatIsWrong([&](OidcConfig* config) { config->keys = folder.Path("jwks"); }), HasSubstr("JWK set"));
  ASSERT_TRUE(WriteFileAtomically(folder.Path("jwks"), TestIssuer().Jwks()).ok());
  EXPECT_EQ(WhatIsWrong([&](OidcConfig* config) { config->keys = folder.Path("jwks"); }), "");
}

}  // namespace
}  // namespace ampd::server
