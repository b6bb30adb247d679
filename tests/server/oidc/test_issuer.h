#pragma once

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::server {

std::string Base64Url(const std::string& bytes);

// A key pair of an issuer. It signs with OpenSSL. The server checks signatures with another library, cjose.
class TestKey {
 public:
  // `type`: "RSA" with `num_bits` bits, or "P-256", "P-384" or "P-521".
  explicit TestKey(std::string id, const std::string& type = "RSA", unsigned num_bits = 2048);

  const std::string& id() const { return id_; }
  // Returns the public key as a member of a JWK set.
  nlohmann::json Jwk() const;
  // Returns the signature of a text with RS256, RS384, RS512, PS256, ES256, ES384 or ES512, in base64url.
  std::string Sign(const std::string& text, const std::string& algorithm) const;
  std::string PublicPem() const;

 private:
  std::string id_;
  std::string type_;
  std::shared_ptr<EVP_PKEY> key_;
};

// Returns the part of a JWT in compact form that is signed: HEADER.CLAIMS.
std::string SigningInput(const nlohmann::json& header, const nlohmann::json& claims);

// An issuer of JWTs for tests.
class TestIssuer {
 public:
  static constexpr char kUrl[] = "https://issuer.test/realms/ml";
  static constexpr char kAudience[] = "ampd";

  // Creates an issuer with an RSA key "rsa-1" and elliptic-curve keys "ec-256" and "ec-384".
  TestIssuer();

  std::vector<TestKey>& keys() { return keys_; }
  const TestKey& rsa() const { return keys_[0]; }
  const TestKey& p256() const { return keys_[1]; }
  const TestKey& p384() const { return keys_[2]; }
  // Returns the JWK set of all keys.
  std::string Jwks() const;

  // Returns claims of alice in the groups "everyone" and "ml-vision" that are valid for an hour.
  static nlohmann::json Claims(absl::Time now);
  // Returns a JWT that is signed by the key and has the key's id in its header.
  static std::string Issue(const nlohmann::json& claims, const TestKey& key, const std::string& algorithm);
  std::string Issue(const nlohmann::json& claims) const { return Issue(claims, rsa(), "RS256"); }

 private:
  std::vector<TestKey> keys_;
};

// The issuer for all tests that do not change their issuer.
const TestIssuer& SharedIssuer();

}  // namespace ampd::server
