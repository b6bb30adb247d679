#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/grants.h"
#include "server/access/identity.h"

namespace ampd::server {

// Maps the claims of a verified JWT to the holder's name, roles and tenants. The operator chooses which claims count.
// Thread-compatible.
class ClaimMapping {
 public:
  // Adds a rule such as "groups:ml-vision=submitter@vision". The holder of a JWT has the role if the claim is this
  // value, or a list that contains this value. In the value, * stands for any characters; all other characters must be
  // equal. In the claim's name, a ':' is written '\:'. INVALID_ARGUMENT (BAD_OIDC), with a message for the operator, if
  // the text is malformed.
  absl::Status AddRole(std::string_view text);

  // Sets the claim that contains one tenant, or a list of tenants. Roles whose rule names no tenant hold in these
  // tenants. Without such a claim, they hold in the tenants that UsualTenants returns. The role admin always holds in
  // all tenants.
  void set_tenant_claim(std::string claim) { tenant_claim_ = std::move(claim); }
  // Sets the claim that contains the holder's name.
  void set_name_claim(std::string claim) { name_claim_ = std::move(claim); }

  bool has_roles() const { return !rules_.empty(); }

  // Returns the identity "oidc:NAME", with the roles of all matching rules. It may have no roles. As an agent, the
  // holder may only be the worker with that name. UNAUTHENTICATED (JWT_NAME) if the name is empty, has more than 128
  // bytes, is not plain (IsPlainName), or is an e-mail address that the issuer has not verified. If the name comes from
  // another claim, an unverified e-mail address is no error, but it gives no roles and no tenants.
  absl::StatusOr<Identity> IdentityOf(const nlohmann::json& claims) const;

 private:
  struct Rule {
    std::string claim;
    std::string value;  // A glob if it contains a *.
    RoleGrant grant;
  };

  Tenants TenantsOf(const RoleGrant& grant, const nlohmann::json& claims) const;

  std::vector<Rule> rules_;
  std::string tenant_claim_;
  std::string name_claim_ = "sub";
};

}  // namespace ampd::server
