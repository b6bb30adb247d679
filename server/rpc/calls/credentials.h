#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ampd/v1/auth_service.pb.h"
#include "server/access/grants.h"
#include "server/access/identity.h"
#include "server/oidc/identity_provider.h"
#include "server/tokens/token_store.h"

namespace ampd::server {

// Finds the identity that belongs to a token or a certificate, for gRPC and for HTTP. Thread-safe.
class Credentials {
 public:
  // All arguments must outlive this object. `provider` verifies JWTs; null: JWTs are not accepted.
  Credentials(const TokenStore* tokens, const Grants* grants, IdentityProvider* provider)
      : tokens_(tokens), grants_(grants), provider_(provider) {}

  // Returns the token that this server issued, from the value "Bearer TOKEN" of an `authorization` header.
  // UNAUTHENTICATED if the value is malformed (BAD_AUTHORIZATION) or the token is not valid; NOT_FOUND if the value has
  // a JWT instead.
  absl::StatusOr<v1::Token> TokenOf(std::string_view authorization) const;
  // Returns the identity for an `authorization` header. UNAUTHENTICATED for the reasons of TokenOf, or if a JWT is not
  // valid.
  absl::StatusOr<Identity> OfAuthorization(std::string_view authorization) const;

  // Returns the identity of the holder of a trusted certificate. UNAUTHENTICATED (BAD_CERTIFICATE_NAME) if the common
  // name has characters that are not allowed in names.
  absl::StatusOr<Identity> OfCertificate(const std::string& common_name) const;

 private:
  bool IsJwt(std::string_view secret) const;

  const TokenStore* const tokens_;
  const Grants* const grants_;
  IdentityProvider* const provider_;
};

// Returns the error for a call whose `authorization` header is malformed, or which has more than one such header.
absl::Status BadAuthorization();

}  // namespace ampd::server
