#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/oidc/signing_keys.h"

namespace ampd::server {

// The most bytes that a JWT may have. gRPC, HAProxy and the HTTP libraries of identity providers have limits of this
// order for all headers together.
inline constexpr size_t kMaxJwtBytes = 8 << 10;

// Whether a secret has the form of a JWT: three parts with dots between them.
bool LooksLikeJwt(std::string_view secret);

// A JWT whose signature and times are good.
struct VerifiedJwt {
  nlohmann::json claims;   // An object with a `sub` that is text.
  absl::Time expire_time;  // The JWT is not valid from here on.
};

// Decides whether a JWT (RFC 7519, as RFC 8725 advises) is one that an issuer has signed for this server. A JWT that is
// encrypted, nested, compressed or not signed is not accepted, nor one whose header marks extensions as critical.
// Immutable; thread-safe.
class JwtVerifier {
 public:
  // Both are compared as they are.
  JwtVerifier(std::string issuer, std::string audience) : issuer_(std::move(issuer)), audience_(std::move(audience)) {}

  // The claims of a JWT. UNAUTHENTICATED if it has expired or is not valid yet (JWT_EXPIRED), or for any other cause
  // (JWT_INVALID); NOT_FOUND if there is no key of the JWT's key id, although it may be good with newer keys. The
  // messages are for operators: they say what is wrong, without text of the JWT.
  absl::StatusOr<VerifiedJwt> Verify(const std::string& jwt, const SigningKeys& keys, absl::Time now) const;

 private:
  absl::Status CheckClaims(const nlohmann::json& claims) const;

  const std::string issuer_;
  const std::string audience_;
};

}  // namespace ampd::server
