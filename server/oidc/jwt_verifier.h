#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/oidc/signing_keys.h"

namespace ampd::server {

// The most bytes that a JWT may have. gRPC, HAProxy and the HTTP libraries of identity providers have similar limits
// for all headers together.
inline constexpr size_t kMaxJwtBytes = 8 << 10;

// Whether a secret has the form of a JWT: three parts with dots between them.
bool LooksLikeJwt(std::string_view secret);

// A JWT with a valid signature that is within its time of validity.
struct VerifiedJwt {
  nlohmann::json claims;   // An object with a `sub` that is text.
  absl::Time expire_time;  // The JWT is invalid from this time on.
};

// Verifies that an issuer has signed a JWT (RFC 7519, with the advice of RFC 8725) for this server. Refuses a JWT that
// is encrypted, nested, compressed or not signed, or whose header marks extensions as critical. Immutable; thread-safe.
class JwtVerifier {
 public:
  // The issuer and the audience in a JWT must equal these two texts exactly.
  JwtVerifier(std::string issuer, std::string audience) : issuer_(std::move(issuer)), audience_(std::move(audience)) {}

  // Returns the claims of a JWT. UNAUTHENTICATED if the JWT has expired or is not valid yet (JWT_EXPIRED), or for any
  // other cause (JWT_INVALID). NOT_FOUND if `keys` lacks the key that the JWT names; the JWT may be valid with newer
  // keys. The error messages are for operators: they give the cause, without text of the JWT.
  absl::StatusOr<VerifiedJwt> Verify(const std::string& jwt, const SigningKeys& keys, absl::Time now) const;

 private:
  absl::Status CheckClaims(const nlohmann::json& claims) const;

  const std::string issuer_;
  const std::string audience_;
};

}  // namespace ampd::server
