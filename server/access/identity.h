#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/tenants.h"

namespace ampd::server {

// What an identity may be on a server, in some tenants or in all. docs/access.md describes the roles.
enum class Role {
  kViewer,     // Sees the tenant's jobs and files, and the workers that serve it.
  kSubmitter,  // Also submits jobs and uploads files, and changes its own jobs.
  kOperator,   // Also changes the jobs of others, and drains and removes workers that serve no other tenant.
  kAdmin,      // May do everything. It holds in all tenants.
  kAgent,      // Works: runs the tenant's jobs, and sees nothing else.
  kScraper,    // Reads the tenant's metrics, and nothing else.
};

// "viewer", "submitter", "operator", "admin", "agent" or "scraper".
std::string_view RoleName(Role role);
// The role of this name; nothing if there is none.
std::optional<Role> ParseRole(std::string_view name);
// "viewer, submitter, operator, admin, agent or scraper".
std::string RoleNames();
// The same for some roles, in this order.
std::string RoleNames(const std::set<Role>& roles, std::string_view last_joint);

// What a method needs.
enum class Right {
  kNone,        // Nothing: everybody may call the method.
  kRead,        // To see jobs, workers and files.
  kSubmit,      // To make jobs and files, and to change one's own jobs.
  kOperate,     // To change jobs of others, workers and files.
  kWork,        // To run jobs as a worker.
  kAdminister,  // To make and revoke tokens, and to read the audit log.
  kScrape,      // To read metrics.
};

bool Has(Role role, Right right);

// The tenants in which a role holds if nothing is said: viewers and submitters belong to the default tenant, and the
// others to the whole server.
Tenants UsualTenants(Role role);

// Who makes a call.
struct Identity {
  // Job.owner of its jobs: "user:alice", or "uid:1001" if the system has no name for the uid; "token:ci" of a call with
  // a token. Empty: a call over --listen without a token.
  std::string name;
  // The tenants in which it has each role. It has the rights of all of them. Empty: the server does not know the
  // identity.
  std::map<Role, Tenants> roles;
  std::string workers = "*";  // Of an agent: a glob on the names of the workers that it may be.

  // An identity with a role in all tenants.
  static Identity InAllTenants(std::string name, Role role);

  // Whether it has the right in some tenant.
  bool has(Right right) const;
  // The tenants in which it has the right.
  Tenants TenantsWith(Right right) const;
  std::set<Role> role_names() const;
};

}  // namespace ampd::server
