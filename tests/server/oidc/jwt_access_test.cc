// Tests a real server with the JWTs of an identity provider: the caller's identity, what the call may do, and what
// happens when the JWT expires.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/error.h"
#include "base/grpc/channel.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "server/oidc/jwt_verifier.h"
#include "tests/count_from_environment.h"
#include "tests/server/oidc/test_issuer.h"
#include "tests/server/rpc/open_watch.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A server that accepts the JWTs of a test issuer. It reads the issuer's keys from a file.
class JwtServer {
 public:
  explicit JwtServer(bool has_provider = true)
      : server_([this, has_provider](ServerConfig* config) {
          config->trusts_loopback = false;
          WriteKeys();
          if (has_provider) {
            config->oidc = Config();
          }
        }) {}

  OidcConfig Config() const {
    OidcConfig config;
    config.issuer = TestIssuer::kUrl;
    config.audience = TestIssuer::kAudience;
    config.keys = folder_.Path("jwks.json");
    for (const char* const role : {"groups:ml-vision=submitter@vision", "groups:ml-text=submitter@text",
                                   "groups:ml-admins=admin", "groups:ml-viewers=viewer@*"}) {
      EXPECT_TRUE(config.claims.AddRole(role).ok());
    }
    return config;
  }

  void WriteKeys() { EXPECT_TRUE(WriteFileAtomically(folder_.Path("jwks.json"), issuer.Jwks()).ok()); }

  TestServer& server() { return server_; }

  // Returns a JWT for a member of the group.
  std::string JwtOf(const std::string& name, const std::string& group, absl::Duration validity = absl::Hours(1)) const {
    json claims = TestIssuer::Claims(absl::Now());
    claims["sub"] = name;
    claims["groups"] = {group};
    claims["exp"] = absl::ToUnixSeconds(absl::Now() + validity);
    return issuer.Issue(claims);
  }

  std::unique_ptr<ServerAccess> With(const std::string& token) {
    auto access = std::make_unique<ServerAccess>();
    access->Connect({.address = server_.address(), .token = token, .tls = {}});
    return access;
  }

  TestIssuer issuer;

 private:
  TemporaryFolder folder_;
  TestServer server_;
};

absl::StatusOr<v1::Caller> WhoIs(v1::AuthService::Stub& auth, const std::string& token) {
  const auto context = Context();
  context->AddMetadata("authorization", "Bearer " + token);
  v1::Caller caller;
  const grpc::Status status = auth.WhoAmI(context.get(), v1::WhoAmIRequest(), &caller);
  return status.ok() ? absl::StatusOr<v1::Caller>(caller) : FromGrpcStatus(status);
}

absl::StatusOr<v1::Job> Submit(ServerAccess& access, const std::string& tenant = "") {
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec("jwt");
  request.set_tenant(tenant);
  v1::Job job;
  const grpc::Status status = access.jobs().CreateJob(Context().get(), request, &job);
  return status.ok() ? absl::StatusOr<v1::Job>(job) : FromGrpcStatus(status);
}

absl::Status Get(ServerAccess& access, const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  v1::Job job;
  return FromGrpcStatus(access.jobs().GetJob(Context().get(), request, &job));
}

TEST(JwtAccess, WhoAmIShowsTheNameTheRolesAndTheTenants) {
  JwtServer server;
  v1::AuthService::Stub auth(server.server().NewChannel());
  const auto caller = WhoIs(auth, server.JwtOf("alice", "ml-vision"));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->name(), "oidc:alice");
  EXPECT_THAT(caller->roles(), ElementsAre(v1::SUBMITTER));
  ASSERT_EQ(caller->memberships_size(), 1);
  EXPECT_EQ(caller->memberships(0).tenant(), "vision");
  EXPECT_FALSE(caller->has_token());
}

TEST(JwtAccess, AJwtCountsMoreThanTheConnection) {
  JwtServer server;
  ServerAccess admin;
  admin.Connect("unix:" + server.server().socket());
  v1::AuthService::Stub on_socket(admin.NewChannel());
  EXPECT_EQ(WhoIs(on_socket, server.JwtOf("alice", "ml-vision"))->name(), "oidc:alice");
  EXPECT_EQ(ReasonOf(WhoIs(on_socket, server.JwtOf("alice", "ml-vision", -absl::Minutes(1))).status()), "JWT_EXPIRED");
  EXPECT_EQ(ReasonOf(WhoIs(on_socket, "a.b.c").status()), "JWT_INVALID");
}

TEST(JwtAccess, WithoutAProviderAJwtIsATokenThatNobodyKnows) {
  JwtServer server(/*has_provider=*/false);
  v1::AuthService::Stub auth(server.server().NewChannel());
  EXPECT_EQ(ReasonOf(WhoIs(auth, server.JwtOf("alice", "ml-vision")).status()), "TOKEN_UNKNOWN");
}

TEST(JwtAccess, ATokenOfTheServerIsNeverTakenForAJwt) {
  JwtServer server;
  v1::AuthService::Stub auth(server.server().NewChannel());
  EXPECT_EQ(ReasonOf(WhoIs(auth, "ampd_a.b.c").status()), "TOKEN_UNKNOWN");
  EXPECT_EQ(ReasonOf(WhoIs(auth, "a.b").status()), "TOKEN_UNKNOWN");
  ServerAccess admin;
  admin.Connect("unix:" + server.server().socket());
  v1::CreateTokenRequest request;
  request.set_name("ci");
  request.set_role(v1::VIEWER);
  v1::CreateTokenResponse response;
  ASSERT_TRUE(v1::AuthService::Stub(admin.NewChannel()).CreateToken(Context().get(), request, &response).ok());
  EXPECT_EQ(WhoIs(auth, response.secret())->name(), "token:ci");
}

TEST(JwtAccess, TheHolderIsLimitedToItsTenants) {
  JwtServer server;
  const auto vision = server.With(server.JwtOf("alice", "ml-vision"));
  const auto text = server.With(server.JwtOf("bob", "ml-text"));
  const auto job = Submit(*vision);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->tenant(), "vision");
  EXPECT_EQ(job->owner(), "oidc:alice");
  EXPECT_TRUE(Get(*vision, job->id()).ok());
  EXPECT_EQ(ReasonOf(Get(*text, job->id())), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Submit(*text, "vision").status()), "WRONG_TENANT");
  const auto viewer = server.With(server.JwtOf("carol", "ml-viewers"));
  EXPECT_TRUE(Get(*viewer, job->id()).ok());
  EXPECT_EQ(ReasonOf(Submit(*viewer).status()), "ROLE_TOO_LOW");
}

TEST(JwtAccess, WhoHasNoRoleLearnsHowToGetOne) {
  JwtServer server;
  const auto nobody = server.With(server.JwtOf("dave", "ml-other"));
  const absl::Status status = Get(*nobody, "j-x");
  EXPECT_EQ(ReasonOf(status), "NO_ROLE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("--oidc-role"));
  v1::AuthService::Stub auth(nobody->NewChannel());
  v1::Caller caller;
  EXPECT_TRUE(auth.WhoAmI(Context().get(), v1::WhoAmIRequest(), &caller).ok());
  EXPECT_EQ(caller.name(), "oidc:dave");
}

TEST(JwtAccess, AnExpiredJwtsStreamsEndSoon) {
  JwtServer server;
  const auto lasting = server.With(server.JwtOf("alice", "ml-vision"));
  const v1::Job job = *Submit(*lasting);
  const auto brief = server.With(server.JwtOf("alice", "ml-vision", absl::Seconds(3)));
  OpenWatch watch(brief.get(), job.id()), other(lasting.get(), job.id());
  EXPECT_LT(watch.AwaitEnd(), absl::Seconds(3 + 5));
  EXPECT_EQ(ReasonOf(watch.status()), "JWT_EXPIRED") << watch.status();
  EXPECT_EQ(ReasonOf(Get(*brief, job.id())), "JWT_EXPIRED");
  EXPECT_FALSE(other.HasEnded());
  other.End();
}

TEST(JwtAccess, TheStreamsOfAKeyThatIsGoneEndSoon) {
  JwtServer server;
  const auto before = server.With(server.JwtOf("alice", "ml-vision"));
  const v1::Job job = *Submit(*before);
  OpenWatch watch(before.get(), job.id());
  server.issuer.keys()[0] = TestKey("rsa-2");
  server.WriteKeys();
  EXPECT_LT(watch.AwaitEnd(), absl::Seconds(5));
  EXPECT_EQ(ReasonOf(watch.status()), "JWT_INVALID") << watch.status();
  EXPECT_TRUE(Get(*server.With(server.JwtOf("alice", "ml-vision")), job.id()).ok());
}

TEST(JwtAccess, AJwtOfTheLargestSizePasses_AndALargerOneIsRefused) {
  JwtServer server;
  v1::AuthService::Stub auth(server.server().NewChannel());
  json claims = TestIssuer::Claims(absl::Now());
  const auto padded = [&](size_t size) {
    claims["more"] = std::string(size, 'x');
    return server.issuer.Issue(claims);
  };
  size_t more = 5000;
  while (padded(more + 1).size() <= kMaxJwtBytes) {
    ++more;
  }
  ASSERT_GE(padded(more).size(), kMaxJwtBytes - 1);
  const auto largest = WhoIs(auth, padded(more));
  EXPECT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(ReasonOf(WhoIs(auth, padded(more + 3)).status()), "JWT_INVALID");
  EXPECT_EQ(WhoIs(auth, padded(20'000)).status().code(), absl::StatusCode::kResourceExhausted) << "gRPC's own limit";
}

TEST(JwtAccess, JwtsOutliveARestart) {
  JwtServer server;
  const std::string jwt = server.JwtOf("alice", "ml-vision");
  server.server().Restart();
  v1::AuthService::Stub auth(server.server().NewChannel());
  EXPECT_EQ(WhoIs(auth, jwt)->name(), "oidc:alice");
}

// Makes valid JWTs, and invalid ones that differ from a valid JWT in only one respect.
class Forger {
 public:
  explicit Forger(const TestIssuer& issuer) : issuer_(issuer) {}

  // Returns a valid JWT, signed with a random key and algorithm.
  std::string Good() {
    const auto [key, algorithm] = Signers()[Draw(Signers().size())];
    return TestIssuer::Issue(Claims(), *key, algorithm);
  }

  // Returns an invalid JWT. `what` receives the reason why it is invalid.
  std::string Bad(std::string* what) {
    switch (Draw(9)) {
      case 0:
        *what = "wrong key";
        return SignedBy(Claims(), Draw(2) == 0 ? own_rsa_ : own_ec_);
      case 1:
        *what = "alg none";
        return Unsigned();
      case 2:
        *what = "expired";
        return Changed("exp", absl::ToUnixSeconds(absl::Now()) - static_cast<int64_t>(Draw(100'000)));
      case 3:
        *what = "other issuer";
        return Changed("iss", absl::StrCat(TestIssuer::kUrl, Draw(1000)));
      case 4:
        *what = "other audience";
        return Changed("aud", json::array({absl::StrCat("other-", Draw(1000))}));
      case 5:
        *what = "other tenant, with the old signature";
        return WithOtherClaims();
      case 6:
        *what = "not valid yet";
        return Changed("nbf", absl::ToUnixSeconds(absl::Now()) + 120 + static_cast<int64_t>(Draw(100'000)));
      case 7:
        *what = "other key id";
        return WithOtherHeader();
      default:
        *what = "characters changed";
        return WithOtherCharacters();
    }
  }

 private:
  using Signer = std::pair<const TestKey*, std::string>;

  std::vector<Signer> Signers() const {
    return {
        {&issuer_.rsa(), "RS256"}, {&issuer_.rsa(), "PS256"}, {&issuer_.p256(), "ES256"}, {&issuer_.p384(), "ES384"}};
  }
  size_t Draw(size_t n) { return static_cast<size_t>(random_() % n); }

  json Claims() {
    json claims = TestIssuer::Claims(absl::Now());
    claims["jti"] = random_();
    return claims;
  }

  static std::string SignedBy(const json& claims, const TestKey& key) {
    return TestIssuer::Issue(claims, key, key.id().starts_with("rsa") ? "RS256" : "ES256");
  }

  std::string Unsigned() {
    static constexpr const char* kNames[] = {"none", "None", "NONE", "nOnE", "HS256", ""};
    const std::string input = SigningInput({{"alg", kNames[Draw(6)]}, {"kid", "rsa-1"}}, Claims());
    return absl::StrCat(input, ".", Draw(2) == 0 ? "" : issuer_.rsa().Sign(input, "RS256"));
  }

  std::string Changed(const char* claim, const json& value) {
    json claims = Claims();
    claims[claim] = value;
    return SignedBy(claims, Draw(2) == 0 ? issuer_.rsa() : issuer_.p256());
  }

  std::string WithOtherClaims() {
    const std::string good = Good();
    json claims = Claims();
    claims["groups"] = {Draw(2) == 0 ? "ml-text" : "ml-admins"};
    return absl::StrCat(good.substr(0, good.find('.')), ".", Base64Url(claims.dump()), good.substr(good.rfind('.')));
  }

  std::string WithOtherHeader() {
    const std::string good = Good();
    const json header = {{"alg", Draw(2) == 0 ? "RS256" : "ES256"}, {"kid", absl::StrCat("key-", Draw(100))}};
    return absl::StrCat(Base64Url(header.dump()), good.substr(good.find('.')));
  }

  std::string WithOtherCharacters() {
    static constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=.+/";
    const std::string good = Good();
    std::string changed = good;
    while (changed == good) {
      const size_t at = Draw(4) == 0 ? good.size() - 1 - Draw(3) : Draw(good.size());  // Often at the end.
      const char other = kAlphabet[Draw(kAlphabet.size())];
      switch (Draw(6)) {
        case 0:
          changed[at] = other;
          break;
        case 1:
          changed.erase(at, 1 + Draw(8));
          break;
        case 2:
          changed.insert(at, 1, other);
          break;
        case 3:
          std::swap(changed[at], changed[Draw(good.size())]);
          break;
        case 4:
          changed += std::string(1 + Draw(3), other);
          break;
        default:
          changed = changed.substr(at) + changed.substr(0, at);
          break;
      }
    }
    return changed;
  }

  const TestIssuer& issuer_;
  const TestKey own_rsa_{"rsa-1"};
  const TestKey own_ec_{"ec-256", "P-256"};
  std::mt19937 random_{4711};
};

TEST(JwtAccess, OfManyMutatedJwtsNoneIsAccepted_AndTheGoodOnesBetweenThemAlwaysAre) {
  JwtServer server;
  v1::AuthService::Stub auth(server.server().NewChannel());
  Forger forger(server.issuer);
  const int64_t num_wanted = CountFromEnvironment("AMPD_TOKEN_MUTATIONS", 10'000);
  std::map<std::string, int> num_refused;
  int num_good = 0;
  for (int64_t i = 0; i < num_wanted; ++i) {
    std::string what;
    const std::string bad = forger.Bad(&what);
    const auto caller = WhoIs(auth, bad);
    ASSERT_FALSE(caller.ok()) << what << ": " << bad << " is " << caller->ShortDebugString();
    ASSERT_EQ(caller.status().code(), absl::StatusCode::kUnauthenticated)
        << what << ": " << bad << ": " << caller.status();
    ++num_refused[what];
    if (i % 10 == 0) {
      const std::string good = forger.Good();
      const auto known = WhoIs(auth, good);
      ASSERT_TRUE(known.ok()) << good << ": " << known.status();
      ASSERT_EQ(known->name(), "oidc:alice");
      ++num_good;
    }
  }
  for (const auto& [what, count] : num_refused) {
    std::cout << "refused: " << count << " (" << what << ")\n";
  }
  std::cout << "accepted: " << num_good << " good ones\n";
  EXPECT_EQ(num_refused.size(), 9U) << "every kind of forgery";
}

}  // namespace
}  // namespace ampd::server
