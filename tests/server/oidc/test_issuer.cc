#include "tests/server/oidc/test_issuer.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

using nlohmann::json;

std::string NumberIn(const EVP_PKEY* key, const char* name, int num_bytes = 0) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, name, &number), 1) << name;
  std::string bytes(static_cast<size_t>(num_bytes == 0 ? BN_num_bytes(number) : num_bytes), '\0');
  EXPECT_GT(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())), 0);
  BN_free(number);
  return bytes;
}

int CoordinateBytes(const std::string& type) { return type == "P-256" ? 32 : type == "P-384" ? 48 : 66; }

// Returns the two numbers of an ECDSA signature one after the other, which is the form in a JWS.
std::string RawSignature(const std::string& der, int num_bytes) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* const signature = d2i_ECDSA_SIG(nullptr, &bytes, static_cast<long>(der.size()));
  std::string raw(2 * static_cast<size_t>(num_bytes), '\0');
  auto* const to = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), to, num_bytes);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), to + num_bytes, num_bytes);
  ECDSA_SIG_free(signature);
  return raw;
}

}  // namespace

std::string Base64Url(const std::string& bytes) { return absl::WebSafeBase64Escape(bytes); }

TestKey::TestKey(std::string id, const std::string& type, unsigned num_bits)
    : id_(std::move(id)),
      type_(type),
      key_(type == "RSA" ? EVP_RSA_gen(num_bits) : EVP_EC_gen(type.c_str()), EVP_PKEY_free) {
  EXPECT_NE(key_, nullptr) << type;
}

json TestKey::Jwk() const {
  json jwk = {{"kid", id_}, {"use", "sig"}};
  if (type_ == "RSA") {
    jwk["kty"] = "RSA";
    jwk["n"] = Base64Url(NumberIn(key_.get(), OSSL_PKEY_PARAM_RSA_N));
    jwk["e"] = Base64Url(NumberIn(key_.get(), OSSL_PKEY_PARAM_RSA_E));
  } else {
    jwk["kty"] = "EC";
    jwk["crv"] = type_;
    jwk["x"] = Base64Url(NumberIn(key_.get(), OSSL_PKEY_PARAM_EC_PUB_X, CoordinateBytes(type_)));
    jwk["y"] = Base64Url(NumberIn(key_.get(), OSSL_PKEY_PARAM_EC_PUB_Y, CoordinateBytes(type_)));
  }
  return jwk;
}

std::string TestKey::Sign(const std::string& text, const std::string& algorithm) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_PKEY_CTX* padding = nullptr;
  const std::string digest = absl::StrCat("SHA", algorithm.substr(2));
  EXPECT_EQ(EVP_DigestSignInit_ex(context.get(), &padding, digest.c_str(), nullptr, nullptr, key_.get(), nullptr), 1);
  if (algorithm.starts_with("PS")) {
    EXPECT_EQ(EVP_PKEY_CTX_set_rsa_padding(padding, RSA_PKCS1_PSS_PADDING), 1);
    EXPECT_EQ(EVP_PKEY_CTX_set_rsa_pss_saltlen(padding, RSA_PSS_SALTLEN_DIGEST), 1);
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  EXPECT_EQ(EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()), 1);
  std::string signature(size, '\0');
  EXPECT_EQ(
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, text.size()), 1);
  signature.resize(size);
  return Base64Url(type_ == "RSA" ? signature : RawSignature(signature, CoordinateBytes(type_)));
}

std::string TestKey::PublicPem() const {
  BIO* const memory = BIO_new(BIO_s_mem());
  EXPECT_EQ(PEM_write_bio_PUBKEY(memory, key_.get()), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(memory);
  return pem;
}

std::string SigningInput(const json& header, const json& claims) {
  return absl::StrCat(Base64Url(header.dump()), ".", Base64Url(claims.dump()));
}

TestIssuer::TestIssuer() {
  keys_.emplace_back("rsa-1");
  keys_.emplace_back("ec-256", "P-256");
  keys_.emplace_back("ec-384", "P-384");
}

std::string TestIssuer::Jwks() const {
  json keys = json::array();
  for (const TestKey& key : keys_) {
    keys.push_back(key.Jwk());
  }
  return json{{"keys", keys}}.dump();
}

json TestIssuer::Claims(absl::Time now) {
  return {{"iss", kUrl},
          {"aud", kAudience},
          {"sub", "alice"},
          {"iat", absl::ToUnixSeconds(now)},
          {"exp", absl::ToUnixSeconds(now + absl::Hours(1))},
          {"groups", {"everyone", "ml-vision"}}};
}

std::string TestIssuer::Issue(const json& claims, const TestKey& key, const std::string& algorithm) {
  const std::string input = SigningInput({{"alg", algorithm}, {"kid", key.id()}, {"typ", "JWT"}}, claims);
  return absl::StrCat(input, ".", key.Sign(input, algorithm));
}

const TestIssuer& SharedIssuer() {
  static const auto* const issuer = new TestIssuer();
  return *issuer;
}

}  // namespace ampd::server
