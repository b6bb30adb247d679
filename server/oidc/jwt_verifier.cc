#include "server/oidc/jwt_verifier.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/formats/json.h"
#include "base/status_macros.h"
#include "server/oidc/base64url.h"

namespace ampd::server {
namespace {

using nlohmann::json;

// The issuer's clock may be this much ahead of this host's clock.
constexpr absl::Duration kLeeway = absl::Seconds(60);
constexpr double kMaxSeconds = 1e11;  // Seconds since 1970; the limit is in the year 5138.
constexpr size_t kNumParts = 3;

absl::Status Invalid(std::string_view why) { return Error(absl::StatusCode::kUnauthenticated, "JWT_INVALID", why); }

std::optional<json> ObjectIn(std::string_view part) {
  const std::optional<std::string> text = DecodeBase64Url(part);
  absl::StatusOr<json> parsed = text.has_value() ? ParseJson(*text) : absl::InvalidArgumentError("is not base64url");
  return parsed.ok() && parsed->is_object() ? std::optional(*std::move(parsed)) : std::nullopt;
}

// Returns the text of a member, or nullopt if the member is absent or is not text.
std::optional<std::string> TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

// Whether the header declares the type JWT or no type. Tokens for other purposes, such as the logout tokens of an
// identity provider, declare another type.
bool IsOfKnownType(const json& header) {
  if (!header.contains("typ")) {
    return true;
  }
  const std::string type = absl::AsciiStrToLower(TextOf(header, "typ").value_or("none"));
  return type == "jwt" || type == "at+jwt" || type == "application/jwt" || type == "application/at+jwt";
}

absl::Status CheckHeader(const json& header) {
  for (const char* const name : {"crit", "zip", "cty", "enc"}) {
    if (header.contains(name)) {
      return Invalid("its header asks for what this server does not do");
    }
  }
  if (!IsOfKnownType(header)) {
    return Invalid("its header names another type than JWT");
  }
  const auto key = header.find("kid");
  return key == header.end() || (key->is_string() && !key->get<std::string>().empty())
             ? absl::OkStatus()
             : Invalid("its header has a malformed key id");
}

// Returns the time in a claim, or nullopt if the claim is absent or is not a number of seconds since 1970.
std::optional<absl::Time> TimeOf(const json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) {
    return std::nullopt;
  }
  const double seconds = found->get<double>();
  return std::isfinite(seconds) && seconds >= 0 && seconds <= kMaxSeconds
             ? std::optional(absl::UnixEpoch() + absl::Seconds(seconds))
             : std::nullopt;
}

// Checks the claims that limit the JWT's validity. Returns the time at which the JWT expires.
absl::StatusOr<absl::Time> CheckTimes(const json& claims, absl::Time now) {
  const std::optional<absl::Time> end = TimeOf(claims, "exp");
  if (!end.has_value()) {
    return Invalid("it has no time at which it expires");
  }
  if (*end <= now) {
    return Error(absl::StatusCode::kUnauthenticated, "JWT_EXPIRED", "it has expired");
  }
  for (const char* const name : {"nbf", "iat"}) {
    const std::optional<absl::Time> begin = TimeOf(claims, name);
    if (claims.contains(name) && !begin.has_value()) {
      return Invalid("a time in it is malformed");
    }
    if (begin.has_value() && *begin > now + kLeeway) {
      return Error(absl::StatusCode::kUnauthenticated, "JWT_EXPIRED", "it is not valid yet, by this host's clock");
    }
  }
  return *end;
}

bool IsFor(const json& audience, const std::string& wanted) {
  if (audience.is_string()) {
    return audience == wanted;
  }
  return audience.is_array() &&
         std::all_of(audience.begin(), audience.end(), [](const json& one) { return one.is_string(); }) &&
         std::find(audience.begin(), audience.end(), wanted) != audience.end();
}

}  // namespace

bool LooksLikeJwt(std::string_view secret) {
  return std::count(secret.begin(), secret.end(), '.') == static_cast<std::ptrdiff_t>(kNumParts) - 1;
}

absl::Status JwtVerifier::CheckClaims(const json& claims) const {
  if (TextOf(claims, "iss") != issuer_) {
    return Invalid("another issuer made it than --oidc-issuer");
  }
  if (const auto audience = claims.find("aud"); audience == claims.end() || !IsFor(*audience, audience_)) {
    return Invalid("it is for another audience than --oidc-audience");
  }
  return TextOf(claims, "sub").value_or("").empty() ? Invalid("it has no subject") : absl::OkStatus();
}

absl::StatusOr<VerifiedJwt> JwtVerifier::Verify(const std::string& jwt, const SigningKeys& keys, absl::Time now) const {
  if (jwt.size() > kMaxJwtBytes) {
    return Invalid("it is longer than 8 KiB");
  }
  const std::vector<std::string> parts = absl::StrSplit(jwt, '.');
  const std::optional<json> header = parts.size() == kNumParts ? ObjectIn(parts[0]) : std::nullopt;
  std::optional<json> claims = header.has_value() ? ObjectIn(parts[1]) : std::nullopt;
  const std::optional<std::string> signature = claims.has_value() ? DecodeBase64Url(parts[2]) : std::nullopt;
  if (!signature.has_value()) {
    return Invalid("it is malformed");
  }
  AMPD_RETURN_IF_ERROR(CheckHeader(*header));
  const SigningKey* const key = keys.Find(TextOf(*header, "kid").value_or(""));
  if (key == nullptr) {
    return absl::NotFoundError("the keys of the issuer have none of its key id, or it names none of several");
  }
  if (!key->HasSigned(jwt, TextOf(*header, "alg").value_or(""), *signature)) {
    return Invalid("its signature or its algorithm is wrong");
  }
  AMPD_RETURN_IF_ERROR(CheckClaims(*claims));
  AMPD_ASSIGN_OR_RETURN(const absl::Time end, CheckTimes(*claims, now));
  return VerifiedJwt{.claims = *std::move(claims), .expire_time = end};
}

}  // namespace ampd::server
