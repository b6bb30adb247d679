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

// Finds out who it is that shows a token or a certificate, for gRPC and for HTTP. Thread-safe.
class Credentials {
 public:
  // All outlive this object. `provider`: whose JWTs are tokens too; null: none.
  Credentials(const TokenStore* tokens, const Grants* grants, IdentityProvider* provider)
      : tokens_(tokens), grants_(grants), provider_(provider) {}

  // The token of this server in the value of an `authorization`, "Bearer TOKEN". UNAUTHENTICATED if the value has
  // another form (BAD_AUTHORIZATION), or the token is not valid; NOT_FOUND if it is a JWT.
  absl::StatusOr<v1::Token> TokenOf(std::string_view authorization) const;
  // The identity that an `authorization` gives. UNAUTHENTICATED as for TokenOf, or if a JWT is not valid.
  absl::StatusOr<Identity> OfAuthorization(std::string_view authorization) const;

  // The identity of the holder of a certificate that is trusted. UNAUTHENTICATED (BAD_CERTIFICATE_NAME) if its common
  // name has characters that names don't have.
  absl::StatusOr<Identity> OfCertificate(const std::string& common_name) const;

 private:
  bool IsJwt(std::string_view secret) const;

  const TokenStore* const tokens_;
  const Grants* const grants_;
  IdentityProvider* const provider_;
};

// The error for a call with another number of values of `authorization` than one, or with one of another form.
absl::Status BadAuthorization();

}  // namespace ampd::server
