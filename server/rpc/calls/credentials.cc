#include "server/rpc/calls/credentials.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/oidc/jwt_verifier.h"

namespace ampd::server {
namespace {

constexpr size_t kSchemeLength = 7;  // Length of "Bearer ".

// Returns the role of a token; nullopt if a newer server gave the token a role that this one does not know.
std::optional<Role> RoleOf(const v1::Token& token) {
  switch (token.role()) {
    case v1::VIEWER:
      return Role::kViewer;
    case v1::SUBMITTER:
      return Role::kSubmitter;
    case v1::OPERATOR:
      return Role::kOperator;
    case v1::ADMIN:
      return Role::kAdmin;
    case v1::AGENT:
      return Role::kAgent;
    case v1::SCRAPER:
      return Role::kScraper;
    default:
      return std::nullopt;
  }
}

Identity IdentityOfToken(const v1::Token& token) {
  Identity identity{.name = absl::StrCat("token:", token.name()), .roles = {}};
  if (const std::optional<Role> role = RoleOf(token); role.has_value()) {
    identity.roles[*role] = token.tenant().empty() ? UsualTenants(*role) : Tenants({token.tenant()});
  }
  if (token.role() == v1::AGENT) {
    identity.workers = token.worker();
  }
  return identity;
}

// Returns the secret in the value of an `authorization` header.
absl::StatusOr<std::string_view> SecretIn(std::string_view authorization) {
  // The scheme is not case-sensitive (RFC 9110, 11.1).
  return authorization.size() > kSchemeLength &&
                 absl::EqualsIgnoreCase(std::string(authorization.substr(0, kSchemeLength)), "Bearer ")
             ? absl::StatusOr<std::string_view>(authorization.substr(kSchemeLength))
             : BadAuthorization();
}

}  // namespace

absl::Status BadAuthorization() {
  return Error(absl::StatusCode::kUnauthenticated, "BAD_AUTHORIZATION",
               "the call's metadata must have one 'authorization' of the form 'Bearer TOKEN'");
}

bool Credentials::IsJwt(std::string_view secret) const {
  return provider_ != nullptr && !TokenStore::IsSecret(secret) && LooksLikeJwt(secret);
}

absl::StatusOr<v1::Token> Credentials::TokenOf(std::string_view authorization) const {
  AMPD_ASSIGN_OR_RETURN(const std::string_view secret, SecretIn(authorization));
  return IsJwt(secret) ? absl::NotFoundError("the call's token is a JWT") : tokens_->Find(secret);
}

absl::StatusOr<Identity> Credentials::OfAuthorization(std::string_view authorization) const {
  AMPD_ASSIGN_OR_RETURN(const std::string_view secret, SecretIn(authorization));
  if (IsJwt(secret)) {
    return provider_->Identify(std::string(secret));
  }
  AMPD_ASSIGN_OR_RETURN(const v1::Token token, tokens_->Find(secret));
  return IdentityOfToken(token);
}

absl::StatusOr<Identity> Credentials::OfCertificate(const std::string& common_name) const {
  Identity identity = grants_->OfCertificate(common_name);
  return !identity.name.empty()
             ? absl::StatusOr<Identity>(std::move(identity))
             : Error(absl::StatusCode::kUnauthenticated, "BAD_CERTIFICATE_NAME",
                     "the common name of the certificate must have letters, digits, '-', '_', '.' and "
                     "'@' only");
}

}  // namespace ampd::server
