#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::server {

// A public key of an issuer, for checking signatures with cjose. Immutable; thread-safe.
class SigningKey {
 public:
  // Parses one member of `keys` of a JWK set (RFC 7517). Returns nullopt if the key is malformed, is not for
  // signatures, or is of another kind than RSA (2048 to 8192 bits), P-256 and P-384. From a private key, only the
  // public part is used.
  static std::optional<SigningKey> Of(const std::string& jwk);

  const std::string& id() const { return id_; }  // Empty: the key has no id.

  // Whether this key has signed a JWT in compact form, HEADER.CLAIMS.SIGNATURE. `algorithm` and `signature` are those
  // of the JWT, decoded. Returns false if the algorithm is none of RS256, RS384, RS512, PS256, ES256 and ES384, or does
  // not fit the key. REQUIRES: DecodeBase64Url accepts each of the three parts of the JWT.
  bool HasSigned(const std::string& jwt, std::string_view algorithm, std::string_view signature) const;

 private:
  enum class Kind { kRsa, kP256, kP384 };
  using Key = std::shared_ptr<const void>;  // Points to a cjose_jwk_t.

  SigningKey(Kind kind, std::string id, std::string algorithm, Key key)
      : kind_(kind), id_(std::move(id)), algorithm_(std::move(algorithm)), key_(std::move(key)) {}

  Kind kind_;
  std::string id_;
  std::string algorithm_;  // The key is only for this algorithm; empty: for all that fit its kind.
  Key key_;
};

// The public keys of an issuer. Immutable; thread-safe.
class SigningKeys {
 public:
  // Parses a JWK set. INVALID_ARGUMENT if it has no key that SigningKey accepts, or more than 100 keys. Skips keys that
  // SigningKey does not accept, because the set may also have keys for other purposes.
  static absl::StatusOr<std::shared_ptr<const SigningKeys>> Parse(std::string_view jwks);

  // Returns the key with this id; if `id` is empty, the only key. Null if there is no such key, or more than one.
  const SigningKey* Find(const std::string& id) const;

 private:
  std::vector<SigningKey> keys_;
};

}  // namespace ampd::server
