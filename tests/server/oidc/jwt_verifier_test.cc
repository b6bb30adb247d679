// Tests each cause for refusing a JWT separately: every JWT here is valid except in one respect.
#include "server/oidc/jwt_verifier.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/server/oidc/test_issuer.h"

namespace ampd::server {
namespace {

using nlohmann::json;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

absl::StatusOr<VerifiedJwt> Verify(const std::string& jwt, absl::Time now = kNow) {
  static const auto* const keys = new auto(*SigningKeys::Parse(SharedIssuer().Jwks()));
  return JwtVerifier(TestIssuer::kUrl, TestIssuer::kAudience).Verify(jwt, **keys, now);
}

// Changes one claim of a valid JWT. Returns "OK", or the reason why the JWT is refused.
std::string With(const char* name, const json& value) {
  json claims = TestIssuer::Claims(kNow);
  claims[name] = value;
  const auto verified = Verify(SharedIssuer().Issue(claims));
  return verified.ok() ? "OK" : ReasonOf(verified.status());
}

std::string Without(const char* name) {
  json claims = TestIssuer::Claims(kNow);
  claims.erase(name);
  const auto verified = Verify(SharedIssuer().Issue(claims));
  return verified.ok() ? "OK" : ReasonOf(verified.status());
}

// Changes one field of the header of a valid JWT. Returns "OK", or the reason why the JWT is refused.
std::string WithHeader(const char* name, const json& value) {
  json header = {{"alg", "RS256"}, {"kid", "rsa-1"}};
  header[name] = value;
  const std::string input = SigningInput(header, TestIssuer::Claims(kNow));
  const auto verified = Verify(absl::StrCat(input, ".", SharedIssuer().rsa().Sign(input, "RS256")));
  return verified.ok() ? "OK" : absl::IsNotFound(verified.status()) ? "NO_KEY" : ReasonOf(verified.status());
}

std::string ReasonFor(const std::string& jwt) {
  const auto verified = Verify(jwt);
  return verified.ok() ? "OK" : ReasonOf(verified.status());
}

constexpr char kInvalid[] = "JWT_INVALID";
constexpr char kExpired[] = "JWT_EXPIRED";

TEST(JwtVerifier, AcceptsWhatTheIssuerSignedForThisServer) {
  const json claims = TestIssuer::Claims(kNow);
  for (const auto& [key, algorithm] : std::vector<std::pair<TestKey, std::string>>{{SharedIssuer().rsa(), "RS256"},
                                                                                   {SharedIssuer().rsa(), "RS384"},
                                                                                   {SharedIssuer().rsa(), "RS512"},
                                                                                   {SharedIssuer().rsa(), "PS256"},
                                                                                   {SharedIssuer().p256(), "ES256"},
                                                                                   {SharedIssuer().p384(), "ES384"}}) {
    const auto verified = Verify(TestIssuer::Issue(claims, key, algorithm));
    ASSERT_TRUE(verified.ok()) << algorithm << ": " << verified.status();
    EXPECT_EQ(verified->claims, claims);
    EXPECT_EQ(verified->expire_time, kNow + absl::Hours(1));
  }
}

TEST(JwtVerifier, RefusesOtherAlgorithms) {
  const std::string claims = TestIssuer::Claims(kNow).dump();
  for (const char* const none : {"none", "None", "NONE", "nOnE", ""}) {
    const std::string input =
        absl::StrCat(Base64Url(json{{"alg", none}, {"kid", "rsa-1"}}.dump()), ".", Base64Url(claims));
    EXPECT_EQ(ReasonFor(input + "."), kInvalid) << none;
    EXPECT_EQ(ReasonFor(absl::StrCat(input, ".", SharedIssuer().rsa().Sign(input, "RS256"))), kInvalid) << none;
  }
  EXPECT_EQ(ReasonFor(TestIssuer::Issue(TestIssuer::Claims(kNow), SharedIssuer().rsa(), "PS384")), kInvalid);
  for (const json& algorithm : {json(), json(256), json::array({"RS256"}), json("rs256"), json("RS256 ")}) {
    EXPECT_EQ(WithHeader("alg", algorithm), kInvalid) << algorithm;
  }
}

// The signature is an HMAC whose shared secret is the public key. Everybody could make it, because the key is public.
TEST(JwtVerifier, RefusesThePublicKeyAsASharedSecret) {
  for (const std::string& secret : {SharedIssuer().rsa().PublicPem(), SharedIssuer().rsa().Jwk().dump(),
                                    SharedIssuer().rsa().Jwk()["n"].get<std::string>()}) {
    const std::string input = SigningInput({{"alg", "HS256"}, {"kid", "rsa-1"}}, TestIssuer::Claims(kNow));
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(input.data()), input.size(), mac, &size);
    const std::string signature(reinterpret_cast<const char*>(mac), size);
    EXPECT_EQ(ReasonFor(absl::StrCat(input, ".", Base64Url(signature))), kInvalid);
  }
}

TEST(JwtVerifier, RefusesOtherKeys) {
  const json claims = TestIssuer::Claims(kNow);
  EXPECT_EQ(ReasonFor(TestIssuer::Issue(claims, TestKey("rsa-1"), "RS256")), kInvalid);
  EXPECT_EQ(ReasonFor(TestIssuer::Issue(claims, TestKey("ec-256", "P-256"), "ES256")), kInvalid);
  EXPECT_EQ(WithHeader("kid", "ec-256"), kInvalid);
  EXPECT_EQ(WithHeader("kid", "rsa-2"), "NO_KEY");
  EXPECT_EQ(WithHeader("kid", 1), kInvalid);
  EXPECT_EQ(WithHeader("kid", ""), kInvalid);
  // A key inside the JWT's own header must not be used to verify the JWT.
  const TestKey own("rsa-1");
  const std::string input = SigningInput({{"alg", "RS256"}, {"kid", "rsa-1"}, {"jwk", own.Jwk()}}, claims);
  EXPECT_EQ(ReasonFor(absl::StrCat(input, ".", own.Sign(input, "RS256"))), kInvalid);
}

TEST(JwtVerifier, WithoutAKeyIdTheOnlyKeyCounts) {
  const std::string input = SigningInput({{"alg", "RS256"}}, TestIssuer::Claims(kNow));
  const std::string jwt = absl::StrCat(input, ".", SharedIssuer().rsa().Sign(input, "RS256"));
  EXPECT_TRUE(absl::IsNotFound(Verify(jwt).status())) << "there are several";
  const auto only = SigningKeys::Parse(json{{"keys", {SharedIssuer().rsa().Jwk()}}}.dump());
  EXPECT_TRUE(JwtVerifier(TestIssuer::kUrl, TestIssuer::kAudience).Verify(jwt, **only, kNow).ok());
}

TEST(JwtVerifier, RefusesHeadersThatAskForMore) {
  EXPECT_EQ(WithHeader("crit", json::array({"exp"})), kInvalid);
  EXPECT_EQ(WithHeader("crit", json::array()), kInvalid);
  EXPECT_EQ(WithHeader("zip", "DEF"), kInvalid);
  EXPECT_EQ(WithHeader("cty", "JWT"), kInvalid);
  EXPECT_EQ(WithHeader("enc", "A256GCM"), kInvalid);
  for (const char* const type : {"logout+jwt", "dpop+jwt", "secevent+jwt", ""}) {
    EXPECT_EQ(WithHeader("typ", type), kInvalid) << type;
  }
  EXPECT_EQ(WithHeader("typ", 1), kInvalid);
  for (const char* const type : {"JWT", "jwt", "at+jwt", "application/at+jwt"}) {
    EXPECT_EQ(WithHeader("typ", type), "OK") << type;
  }
  EXPECT_EQ(WithHeader("x5t", "anything"), "OK");
}

TEST(JwtVerifier, RefusesOtherIssuers) {
  for (const json& issuer : {json("https://issuer.test/realms/ml/"), json("https://issuer.test/realms/m"), json(""),
                             json(), json(1), json::array({TestIssuer::kUrl}), json("HTTPS://issuer.test/realms/ml")}) {
    EXPECT_EQ(With("iss", issuer), kInvalid) << issuer;
  }
  EXPECT_EQ(Without("iss"), kInvalid);
}

TEST(JwtVerifier, RefusesOtherAudiences) {
  for (const json& audience : {json("other"), json(""), json("ampd2"), json("AMPD"), json(), json(1), json::array(),
                               json::array({"other"}), json::array({"ampd", 1}), json{{"ampd", true}}}) {
    EXPECT_EQ(With("aud", audience), kInvalid) << audience;
  }
  EXPECT_EQ(Without("aud"), kInvalid);
  EXPECT_EQ(With("aud", json::array({"other", "ampd"})), "OK");
}

TEST(JwtVerifier, RefusesOtherTimes) {
  const int64_t now = absl::ToUnixSeconds(kNow);
  EXPECT_EQ(With("exp", now + 1), "OK");
  EXPECT_EQ(With("exp", static_cast<double>(now) + 0.5), "OK");
  for (const int64_t end : {now, now - 1, int64_t{0}}) {
    EXPECT_EQ(With("exp", end), kExpired) << end;
  }
  for (const json& end : {json(), json("never"), json(std::to_string(now + 60)), json(-1), json(1e300), json(true)}) {
    EXPECT_EQ(With("exp", end), kInvalid) << end;
  }
  EXPECT_EQ(Without("exp"), kInvalid);
  for (const char* const begin : {"nbf", "iat"}) {
    EXPECT_EQ(With(begin, now + 60), "OK") << begin;
    EXPECT_EQ(With(begin, now + 61), kExpired) << begin;
    EXPECT_EQ(With(begin, "now"), kInvalid) << begin;
    EXPECT_EQ(With(begin, json()), kInvalid) << begin;
    EXPECT_EQ(Without(begin), "OK") << begin;
  }
}

TEST(JwtVerifier, RefusesTheLackOfASubject) {
  EXPECT_EQ(Without("sub"), kInvalid);
  for (const json& subject : {json(""), json(1), json(), json::array({"alice"})}) {
    EXPECT_EQ(With("sub", subject), kInvalid) << subject;
  }
}

TEST(JwtVerifier, SaysThatAJwtExpiredOnlyIfItsSignatureIsGood) {
  json claims = TestIssuer::Claims(kNow - absl::Hours(2));
  EXPECT_EQ(ReasonFor(SharedIssuer().Issue(claims)), kExpired);
  EXPECT_EQ(ReasonFor(TestIssuer::Issue(claims, TestKey("rsa-1"), "RS256")), kInvalid);
}

TEST(JwtVerifier, RefusesOtherForms) {
  const std::string good = SharedIssuer().Issue(TestIssuer::Claims(kNow));
  ASSERT_EQ(ReasonFor(good), "OK");
  const size_t first = good.find('.');
  const size_t second = good.rfind('.');
  const std::string header = good.substr(0, first);
  const std::string claims = good.substr(first + 1, second - first - 1);
  const std::string signature = good.substr(second + 1);
  for (const std::string& bad : {std::string(),
                                 std::string("."),
                                 std::string(".."),
                                 "." + claims + "." + signature,
                                 header + ".." + signature,
                                 header + "." + claims + ".",
                                 header + "." + claims,
                                 good + ".",
                                 "." + good,
                                 good + "." + signature,
                                 header + "." + claims + "." + signature + "." + signature + "." + signature,
                                 good + "=",
                                 good + "==",
                                 good + "=x",
                                 "A=AA." + claims + "." + signature,
                                 header + ".A=AA." + signature,
                                 header + "." + claims + ".A=AA",
                                 header + "=." + claims + "." + signature,
                                 good + " ",
                                 " " + good,
                                 good + "\n",
                                 good + std::string(1, '\0'),
                                 Base64Url("[]") + "." + claims + "." + signature,
                                 header + "." + Base64Url("\"x\"") + "." + signature,
                                 Base64Url("{}") + "." + claims + "." + signature}) {
    EXPECT_NE(ReasonFor(bad), "OK") << bad;
  }
}

// A duplicate claim must be refused, because two programs that read the JWT might use different values of it.
TEST(JwtVerifier, RefusesAClaimThatIsThereTwice) {
  const std::string claims = TestIssuer::Claims(kNow).dump();
  for (const auto& [head, body] : std::vector<std::pair<std::string, std::string>>{
           {R"({"alg":"RS256","kid":"rsa-1"})", R"({"sub":"root",)" + claims.substr(1)},
           {R"({"alg":"none","alg":"RS256","kid":"rsa-1"})", claims}}) {
    const std::string input = absl::StrCat(Base64Url(head), ".", Base64Url(body));
    EXPECT_EQ(ReasonFor(absl::StrCat(input, ".", SharedIssuer().rsa().Sign(input, "RS256"))), kInvalid) << head << body;
  }
}

TEST(JwtVerifier, RefusesWhatIsLongerThan8KiB) {
  json claims = TestIssuer::Claims(kNow);
  claims["more"] = std::string(5000, 'x');
  EXPECT_EQ(ReasonFor(SharedIssuer().Issue(claims)), "OK");
  claims["more"] = std::string(8000, 'x');
  EXPECT_EQ(ReasonFor(SharedIssuer().Issue(claims)), kInvalid);
}

TEST(JwtVerifier, SurvivesDeepNesting) {
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  const std::string input = absl::StrCat(Base64Url(R"({"alg":"RS256","kid":"rsa-1","x":)" + deep + "}"), ".",
                                         Base64Url(TestIssuer::Claims(kNow).dump()));
  EXPECT_EQ(ReasonFor(absl::StrCat(input, ".", SharedIssuer().rsa().Sign(input, "RS256"))), "OK");
}

TEST(LooksLikeJwt, IsWhatHasTwoDots) {
  EXPECT_TRUE(LooksLikeJwt("a.b.c"));
  EXPECT_FALSE(LooksLikeJwt("ampd_abc"));
  EXPECT_FALSE(LooksLikeJwt("a.b"));
  EXPECT_FALSE(LooksLikeJwt("a.b.c.d.e"));
}

}  // namespace
}  // namespace ampd::server
