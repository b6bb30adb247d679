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

// Who the holder of a verified JWT is, and which roles it has: claims that an operator chose become a name, roles and
// tenants. Thread-compatible.
class ClaimMapping {
 public:
  // Adds "groups:ml-vision=submitter@vision": who has this value in this claim, or a list with it, has the role. The
  // value is compared as it is, except that * stands for any characters. A ':' in the claim's name is written '\:'.
  // INVALID_ARGUMENT (BAD_OIDC) with a text for the operator if the text has another form.
  absl::Status AddRole(std::string_view text);

  // The claim with the tenant, or a list of tenants, of the roles that name no tenant; empty: UsualTenants. Roles of
  // admins hold in all tenants anyway.
  void set_tenant_claim(std::string claim) { tenant_claim_ = std::move(claim); }
  // The claim with the name.
  void set_name_claim(std::string claim) { name_claim_ = std::move(claim); }

  bool has_roles() const { return !rules_.empty(); }

  // The identity "oidc:NAME", with the roles of all rules that match; it may have none. As an agent it may be the
  // worker of that name only. UNAUTHENTICATED (JWT_NAME) if the name is empty or has characters other than letters,
  // digits, '-', '_', '.' and '@', or if it is an e-mail address that the issuer has not verified. Such an address
  // gives no roles and no tenants either.
  absl::StatusOr<Identity> IdentityOf(const nlohmann::json& claims) const;

 private:
  struct Rule {
    std::string claim;
    std::string value;  // A glob if it has a *.
    RoleGrant grant;
  };

  Tenants TenantsOf(const RoleGrant& grant, const nlohmann::json& claims) const;

  std::vector<Rule> rules_;
  std::string tenant_claim_;
  std::string name_claim_ = "sub";
};

}  // namespace ampd::server
