#include "server/oidc/claim_mapping.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameBytes = 128;

absl::Status BadRole(std::string_view text, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_OIDC",
               absl::StrCat("'", std::string(text), "': ", std::string(why),
                            "; it has the form CLAIM:VALUE=ROLE, or CLAIM:VALUE=ROLE@TENANT for a role in a tenant"));
}

// Returns the position of the ':' that ends the claim's name.
size_t EndOfClaim(std::string_view text) {
  size_t at = text.find(':');
  while (at != std::string_view::npos && at > 0 && text[at - 1] == '\\') {
    at = text.find(':', at + 1);
  }
  return at;
}

std::string WithoutBackslashes(std::string_view text) {
  std::string name(text);
  name.erase(std::remove(name.begin(), name.end(), '\\'), name.end());
  return name;
}

// Whether the claim is an e-mail address that the issuer has not verified. Such an address may belong to somebody else.
bool IsUnverified(const json& claims, const std::string& claim) {
  const auto verified = claims.find("email_verified");
  return claim == "email" && verified != claims.end() && *verified != true && *verified != "true";
}

// Returns the text in a claim, or all texts if the claim is a list. Empty if the claim has another type or is not
// verified.
std::vector<std::string> ValuesOf(const json& claims, const std::string& claim) {
  std::vector<std::string> values;
  if (IsUnverified(claims, claim)) {
    return values;
  }
  const auto found = claims.find(claim);
  if (found != claims.end() && found->is_string()) {
    values.push_back(found->get<std::string>());
  } else if (found != claims.end() && found->is_array()) {
    for (const json& value : *found) {
      if (value.is_string()) {
        values.push_back(value.get<std::string>());
      }
    }
  }
  return values;
}

bool IsGlob(std::string_view value) { return value.find('*') != std::string_view::npos; }

bool Matches(const std::string& wanted, const std::string& value) {
  return IsGlob(wanted) ? GlobMatches(wanted, value) : wanted == value;
}

}  // namespace

absl::Status ClaimMapping::AddRole(std::string_view text) {
  const size_t end_of_claim = EndOfClaim(text);
  const size_t end_of_value = text.rfind('=');
  if (end_of_claim == std::string_view::npos || end_of_value == std::string_view::npos || end_of_claim == 0 ||
      end_of_claim + 1 >= end_of_value) {
    return BadRole(text, "has not the form of a role for a claim");
  }
  const absl::StatusOr<RoleGrant> grant = RoleGrant::Parse(text.substr(end_of_value + 1));
  if (!grant.ok()) {
    return BadRole(text, std::string(grant.status().message()));
  }
  Rule rule{.claim = WithoutBackslashes(text.substr(0, end_of_claim)),
            .value = std::string(text.substr(end_of_claim + 1, end_of_value - end_of_claim - 1)),
            .grant = *grant};
  if (IsGlob(rule.value) && rule.value.find_first_of("?[]") != std::string::npos) {
    return BadRole(text, "a value with '*' cannot also have '?', '[' or ']'");
  }
  // Users of an identity provider can often create groups and choose the groups' names. Such a name could match a
  // pattern, so no pattern may give the role admin.
  if (IsGlob(rule.value) && rule.grant.role == Role::kAdmin) {
    return BadRole(text, "the value for the role admin must be exact, without '*'");
  }
  rules_.push_back(std::move(rule));
  return absl::OkStatus();
}

// Returns the tenants in which the granted role holds for the holder of these claims. Ignores names in the claims that
// no tenant can have, such as "*".
Tenants ClaimMapping::TenantsOf(const RoleGrant& grant, const json& claims) const {
  if (grant.tenants.has_value() || tenant_claim_.empty() || grant.role == Role::kAdmin) {
    return grant.tenants.value_or(UsualTenants(grant.role));
  }
  Tenants tenants;
  for (const std::string& name : ValuesOf(claims, tenant_claim_)) {
    if (CheckTenantName("tenant", name).ok()) {
      tenants.Add(Tenants({name}));
    }
  }
  return tenants;
}

absl::StatusOr<Identity> ClaimMapping::IdentityOf(const json& claims) const {
  const auto found = claims.find(name_claim_);
  const std::string name = found != claims.end() && found->is_string() ? found->get<std::string>() : "";
  if (name.empty() || name.size() > kMaxNameBytes || !IsPlainName(name)) {
    return Error(
        absl::StatusCode::kUnauthenticated, "JWT_NAME",
        absl::StrCat("its claim ", name_claim_, " is no name of at most 128 letters, digits, '-', '_', '.' and '@'"));
  }
  if (IsUnverified(claims, name_claim_)) {
    return Error(absl::StatusCode::kUnauthenticated, "JWT_NAME",
                 "the identity provider has not verified its e-mail address");
  }
  Identity identity{.name = absl::StrCat("oidc:", name), .roles = {}, .workers = name};
  for (const Rule& rule : rules_) {
    const std::vector<std::string> values = ValuesOf(claims, rule.claim);
    const Tenants tenants = TenantsOf(rule.grant, claims);
    if (!tenants.empty() && std::any_of(values.begin(), values.end(),
                                        [&](const std::string& value) { return Matches(rule.value, value); })) {
      identity.roles[rule.grant.role].Add(tenants);
    }
  }
  return identity;
}

}  // namespace ampd::server
