#include "server/oidc/signing_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/oidc/base64url.h"
#include "tests/server/oidc/test_issuer.h"

namespace ampd::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Base64Url, TakesTheOneTextOfSomeBytesOnly) {
  EXPECT_EQ(DecodeBase64Url("AP-_"), std::string("\0\xff\xbf", 3));
  EXPECT_EQ(DecodeBase64Url("AA"), std::string(1, '\0'));
  EXPECT_EQ(DecodeBase64Url(""), "");
  for (const char* const text :
       {"A", "AB", "AAB", "AA==", "AA=x", "A=AA", "=", "AA A", "AA\n", "AP+/", "AAA.", "\xc3\xa4"}) {
    EXPECT_EQ(DecodeBase64Url(text), std::nullopt) << text;
  }
}

// Whether the key accepts a signature of `signer` with this algorithm, which the JWT's header names.
bool Takes(const json& jwk, const TestKey& signer, const std::string& algorithm) {
  const std::optional<SigningKey> key = SigningKey::Of(jwk.dump());
  const std::string input = SigningInput({{"alg", algorithm}}, {{"sub", "x"}});
  const std::string signature = signer.Sign(input, algorithm);
  return key.has_value() && key->HasSigned(absl::StrCat(input, ".", signature), algorithm, *DecodeBase64Url(signature));
}

TEST(SigningKey, TakesItsOwnSignatures_AndNoOthers) {
  const TestKey other("rsa-1");
  for (const char* const algorithm : {"RS256", "RS384", "RS512", "PS256"}) {
    EXPECT_TRUE(Takes(SharedIssuer().rsa().Jwk(), SharedIssuer().rsa(), algorithm)) << algorithm;
    EXPECT_FALSE(Takes(SharedIssuer().rsa().Jwk(), other, algorithm)) << algorithm;
  }
  EXPECT_TRUE(Takes(SharedIssuer().p256().Jwk(), SharedIssuer().p256(), "ES256"));
  EXPECT_FALSE(Takes(SharedIssuer().p256().Jwk(), TestKey("ec-256", "P-256"), "ES256"));
  EXPECT_TRUE(Takes(SharedIssuer().p384().Jwk(), SharedIssuer().p384(), "ES384"));
}

TEST(SigningKey, TakesNoAlgorithmThatDoesNotFit) {
  EXPECT_FALSE(Takes(SharedIssuer().rsa().Jwk(), SharedIssuer().rsa(), "PS384"));
  EXPECT_FALSE(Takes(SharedIssuer().rsa().Jwk(), SharedIssuer().rsa(), "PS512"));
  EXPECT_FALSE(Takes(SharedIssuer().p384().Jwk(), SharedIssuer().p384(), "ES256"));
  EXPECT_FALSE(Takes(SharedIssuer().p256().Jwk(), SharedIssuer().p256(), "ES384"));
  EXPECT_FALSE(Takes(SharedIssuer().p256().Jwk(), SharedIssuer().rsa(), "RS256"));
  EXPECT_FALSE(Takes(SharedIssuer().rsa().Jwk(), SharedIssuer().p256(), "ES256"));
}

TEST(SigningKey, IsForItsOwnAlgorithmIfItNamesOne) {
  json jwk = SharedIssuer().rsa().Jwk();
  jwk["alg"] = "RS256";
  EXPECT_TRUE(Takes(jwk, SharedIssuer().rsa(), "RS256"));
  EXPECT_FALSE(Takes(jwk, SharedIssuer().rsa(), "RS512"));
  EXPECT_FALSE(Takes(jwk, SharedIssuer().rsa(), "PS256"));
}

TEST(SigningKey, TakesTheHeadersAlgorithmOnly) {
  const std::optional<SigningKey> key = SigningKey::Of(SharedIssuer().rsa().Jwk().dump());
  for (const char* const shown : {"none", "HS256", "RS512"}) {
    const std::string input = SigningInput({{"alg", shown}}, {{"sub", "x"}});
    const std::string signature = SharedIssuer().rsa().Sign(input, "RS256");
    EXPECT_FALSE(key->HasSigned(absl::StrCat(input, ".", signature), "RS256", *DecodeBase64Url(signature))) << shown;
  }
}

TEST(SigningKey, TakesAnEcSignatureInOneFormOnly) {
  const std::optional<SigningKey> key = SigningKey::Of(SharedIssuer().p256().Jwk().dump());
  const std::string input = SigningInput({{"alg", "ES256"}}, {{"sub", "x"}});
  const std::string good = *DecodeBase64Url(SharedIssuer().p256().Sign(input, "ES256"));
  const std::string zero(1, '\0');
  const std::string padded = zero + good.substr(0, 32) + zero + good.substr(32);
  for (const std::string& bad : {good + "x", padded, std::string(), std::string(64, '\0'), good.substr(0, 63)}) {
    EXPECT_FALSE(key->HasSigned(absl::StrCat(input, ".", Base64Url(bad)), "ES256", bad)) << bad.size();
  }
  EXPECT_TRUE(key->HasSigned(absl::StrCat(input, ".", Base64Url(good)), "ES256", good));
}

TEST(SigningKey, LeavesNoErrorBehindForTheTlsOfTheThread) {
  EXPECT_FALSE(Takes(SharedIssuer().rsa().Jwk(), TestKey("rsa-1"), "RS256"));
  EXPECT_EQ(ERR_peek_error(), 0U);
  EXPECT_FALSE(Takes(SharedIssuer().rsa().Jwk(), TestKey("rsa-1"), "PS256"));
  EXPECT_EQ(ERR_peek_error(), 0U);
}

TEST(SigningKey, IsNotMadeOfWhatIsWeakOrMalformedOrForAnotherPurpose) {
  std::vector<json> bad;
  const auto change = [&bad](json jwk, const char* name, const json& value) {
    jwk[name] = value;
    bad.push_back(jwk);
  };
  const json rsa = SharedIssuer().rsa().Jwk();
  const json ec = SharedIssuer().p256().Jwk();
  change(rsa, "use", "enc");
  change(rsa, "use", 1);
  change(rsa, "key_ops", {"sign"});
  change(rsa, "key_ops", "verify");
  change(rsa, "kty", "oct");
  change(rsa, "kty", "OKP");
  change(rsa, "n", TestKey("weak", "RSA", 1024).Jwk()["n"]);
  change(rsa, "n", Base64Url(std::string(1025, '\xff')));
  change(rsa, "n", Base64Url(std::string(1, '\0') + *DecodeBase64Url(rsa["n"].get<std::string>())));
  change(rsa, "n", rsa["n"].get<std::string>() + "==");
  change(rsa, "n", 65537);
  change(rsa, "e", "AQ");    // The exponent 1.
  change(rsa, "e", "AAAB");  // The exponent 1, with leading zeros.
  change(rsa, "e", "Ag");    // The exponent 2.
  change(rsa, "e", "A=AA");  // cjose aborts the process on this text.
  change(rsa, "e", "");
  change(ec, "crv", "P-384");
  change(ec, "crv", "secp256k1");
  change(ec, "x", ec["y"]);  // This point is not on the curve.
  change(ec, "x", "A=AA");
  change(ec, "y", ec["y"].get<std::string>() + "AAAA");
  bad.push_back({{"kty", "oct"}, {"k", "c2VjcmV0"}, {"kid", "rsa-1"}});
  bad.push_back(TestKey("big", "P-521").Jwk());
  bad.push_back(json::array());
  for (const json& jwk : bad) {
    EXPECT_FALSE(SigningKey::Of(jwk.dump()).has_value()) << jwk.dump();
  }
  EXPECT_FALSE(SigningKey::Of("{").has_value());
  EXPECT_TRUE(SigningKey::Of(rsa.dump()).has_value());
  EXPECT_TRUE(SigningKey::Of(ec.dump()).has_value());
}

TEST(SigningKeys, FindsTheOneKeyOfAnId) {
  const auto keys = SigningKeys::Parse(SharedIssuer().Jwks());
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->Find("ec-256")->id(), "ec-256");
  EXPECT_EQ((*keys)->Find("ec-257"), nullptr);
  EXPECT_EQ((*keys)->Find(""), nullptr) << "one of several";
  const json twice = {{"keys", {SharedIssuer().rsa().Jwk(), SharedIssuer().rsa().Jwk()}}};
  EXPECT_EQ((*SigningKeys::Parse(twice.dump()))->Find("rsa-1"), nullptr);
  const json encrypting = {{"keys", {SharedIssuer().rsa().Jwk(), {{"kty", "oct"}, {"k", "c2VjcmV0"}}}}};
  EXPECT_EQ((*SigningKeys::Parse(encrypting.dump()))->Find("")->id(), "rsa-1") << "the only one for signatures";
}

TEST(SigningKeys, WithoutAnyUsableKeyIsAnError) {
  json many = json::array();
  for (int i = 0; i < 101; ++i) {
    many.push_back(SharedIssuer().p256().Jwk());
  }
  for (const std::string& bad : {std::string(), std::string("[]"), std::string("{}"), std::string(R"({"keys":{}})"),
                                 std::string(R"({"keys":[]})"), std::string(R"({"keys":[{"kty":"oct","k":"AAAA"}]})"),
                                 std::string(R"({"keys":[1]})"), json{{"keys", many}}.dump()}) {
    EXPECT_FALSE(SigningKeys::Parse(bad).ok()) << bad.substr(0, 60);
  }
}

}  // namespace
}  // namespace ampd::server
