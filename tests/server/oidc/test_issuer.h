#pragma once

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::server {

std::string Base64Url(const std::string& bytes);

// A key pair of an issuer. It signs with OpenSSL, not with the library that the server checks signatures with.
class TestKey {
 public:
  // `type`: "RSA" with a number of bits, or "P-256", "P-384" or "P-521".
  explicit TestKey(std::string id, const std::string& type = "RSA", unsigned num_bits = 2048);

  const std::string& id() const { return id_; }
  // The public half as a member of a JWK set.
  nlohmann::json Jwk() const;
  // The signature of a text with RS256, RS384, RS512, PS256, ES256, ES384 or ES512, in base64url.
  std::string Sign(const std::string& text, const std::string& algorithm) const;
  std::string PublicPem() const;

 private:
  std::string id_;
  std::string type_;
  std::shared_ptr<EVP_PKEY> key_;
};

// The texts of a JWT in compact form.
std::string SigningInput(const nlohmann::json& header, const nlohmann::json& claims);

// An issuer of JWTs for tests.
class TestIssuer {
 public:
  static constexpr char kUrl[] = "https://issuer.test/realms/ml";
  static constexpr char kAudience[] = "ampd";

  // With an RSA key "rsa-1" and keys "ec-256" and "ec-384".
  TestIssuer();

  std::vector<TestKey>& keys() { return keys_; }
  const TestKey& rsa() const { return keys_[0]; }
  const TestKey& p256() const { return keys_[1]; }
  const TestKey& p384() const { return keys_[2]; }
  // The JWK set of all keys.
  std::string Jwks() const;

  // Claims that are good for an hour, of alice in the groups "everyone" and "ml-vision".
  static nlohmann::json Claims(absl::Time now);
  // A JWT signed by a key, with its id in the header.
  static std::string Issue(const nlohmann::json& claims, const TestKey& key, const std::string& algorithm);
  std::string Issue(const nlohmann::json& claims) const { return Issue(claims, rsa(), "RS256"); }

 private:
  std::vector<TestKey> keys_;
};

// One issuer for all tests that do not change it.
const TestIssuer& SharedIssuer();

}  // namespace ampd::server
