#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ampd::server {

// What an identity may be on a server. docs/access.md describes the roles.
enum class Role {
  kViewer,     // Sees everything.
  kSubmitter,  // Also submits jobs and uploads files, and changes its own jobs.
  kOperator,   // Also changes the jobs of others, and drains and removes workers.
  kAdmin,      // May do everything.
  kAgent,      // Works: runs jobs for the server, and sees nothing else.
};

// "viewer", "submitter", "operator", "admin" or "agent".
std::string_view RoleName(Role role);
// The role of this name; nothing if there is none.
std::optional<Role> ParseRole(std::string_view name);
// "viewer, submitter, operator, admin or agent".
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
};

bool Has(Role role, Right right);

// Who makes a call.
struct Identity {
  // Job.owner of its jobs: "user:alice", or "uid:1001" if the system has no name for the uid; "token:ci" of a call with
  // a token. Empty: a call over --listen without a token.
  std::string name;
  std::set<Role> roles;       // It has the rights of all of them. Empty: the server does not know the identity.
  std::string workers = "*";  // Of an agent: a glob on the names of the workers that it may be.

  bool has(Right right) const;
};

}  // namespace ampd::server
