#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/api/tenants.h"

namespace ampd::server {

// A role of an identity, which holds in some tenants or in all. docs/access.md describes the roles.
enum class Role {
  kViewer,     // Sees the tenant's jobs and files, and the workers that serve it.
  kSubmitter,  // May also submit jobs, upload files and change its own jobs.
  kOperator,   // May also change all jobs of its tenants, and drain and remove workers that serve only its tenants.
  kAdmin,      // May do everything, in all tenants.
  kAgent,      // Runs the tenant's jobs as a worker, and sees nothing else.
  kScraper,    // Reads the tenant's metrics, and nothing else.
};

// Returns the name of a role: "viewer", "submitter", "operator", "admin", "agent" or "scraper".
std::string_view RoleName(Role role);
// Returns the role with this name, or nullopt if there is none.
std::optional<Role> ParseRole(std::string_view name);
// Returns "viewer, submitter, operator, admin, agent or scraper".
std::string RoleNames();
// Returns the names of these roles as one text, in the order of the enum Role. Commas separate the names; `last_joint`
// (" or ", " and ") separates the last two.
std::string RoleNames(const std::set<Role>& roles, std::string_view last_joint);

// The permission that a method requires.
enum class Right {
  kNone,        // No permission: everybody may call the method.
  kRead,        // Permission to see jobs, workers and files.
  kSubmit,      // Permission to create jobs and files, and to change one's own jobs.
  kOperate,     // Permission to change other people's jobs, workers and files.
  kWork,        // Permission to run jobs as a worker.
  kAdminister,  // Permission to create and revoke tokens, and to read the audit log.
  kScrape,      // Permission to read metrics.
};

bool Has(Role role, Right right);

// The tenants in which a role holds if its grant names none: the default tenant for viewers and submitters, all tenants
// for the other roles.
Tenants UsualTenants(Role role);

// Identifies the caller of a method.
struct Identity {
  // The caller's name, which becomes Job.owner of the jobs that it creates: "user:alice", or "uid:1001" if the system
  // has no name for the uid, or "token:ci" for a call with a token. Empty for a call over --listen that has neither a
  // token nor a certificate.
  std::string name;
  // The tenants in which the caller has each role. The caller has the rights of all its roles. Empty if the caller has
  // no role on this server.
  std::map<Role, Tenants> roles;
  std::string workers = "*";  // For an agent: a glob on the names of the workers that it may be.

  // Returns an identity that has this role in all tenants.
  static Identity InAllTenants(std::string name, Role role);

  // Whether the identity has the right in at least one tenant.
  bool has(Right right) const;
  // Returns the tenants in which the identity has the right.
  Tenants TenantsWith(Right right) const;
  std::set<Role> role_names() const;
};

}  // namespace ampd::server
