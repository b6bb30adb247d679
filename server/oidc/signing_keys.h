#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::server {

// A public key with which an issuer's signatures are checked, on cjose. Immutable; thread-safe.
class SigningKey {
 public:
  // The key in a member of `keys` of a JWK set (RFC 7517). Nothing if the key is for another purpose than signatures,
  // if it is none of RSA with 2048 to 8192 bits, P-256 or P-384, or if it is malformed. A private key counts as its
  // public half.
  static std::optional<SigningKey> Of(const std::string& jwk);

  const std::string& id() const { return id_; }  // Empty: none.

  // Whether the key has signed a JWT in compact form: HEADER.CLAIMS.SIGNATURE. `algorithm` and `signature`: those of
  // the JWT, decoded. False if the algorithm is none of RS256, RS384, RS512, PS256, ES256 and ES384, or does not fit
  // the key. REQUIRES: each of the three parts of the JWT passes DecodeBase64Url.
  bool HasSigned(const std::string& jwt, std::string_view algorithm, std::string_view signature) const;

 private:
  enum class Kind { kRsa, kP256, kP384 };
  using Key = std::shared_ptr<const void>;  // A cjose_jwk_t.

  SigningKey(Kind kind, std::string id, std::string algorithm, Key key)
      : kind_(kind), id_(std::move(id)), algorithm_(std::move(algorithm)), key_(std::move(key)) {}

  Kind kind_;
  std::string id_;
  std::string algorithm_;  // The only one that the key is for; empty: all that fit its kind.
  Key key_;
};

// The public keys of an issuer. Immutable; thread-safe.
class SigningKeys {
 public:
  // Reads a JWK set. INVALID_ARGUMENT if it has no key that SigningKey takes, or more than 100 keys. Keys that
  // SigningKey does not take are skipped, because the set may also have keys for other purposes.
  static absl::StatusOr<std::shared_ptr<const SigningKeys>> Parse(std::string_view jwks);

  // The key with this id; the only key if `id` is empty. Null if there is none, or more than one.
  const SigningKey* Find(const std::string& id) const;

 private:
  std::vector<SigningKey> keys_;
};

}  // namespace ampd::server
