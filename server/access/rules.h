#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/access/identity.h"

namespace ampd::server {

// A row of the policy table: what a method of the API needs.
struct Rule {
  std::string_view method;  // "ampd.v1.JobService/CreateJob"
  Right right = Right::kNone;
  // An agent may call the method too, although it needs another right: it fetches the models of its jobs.
  bool agents_too = false;
  // The method changes the job that its request names. A role without kOperate may then only change its own jobs.
  bool changes_job = false;
};

// All rows, ordered by method.
const std::vector<Rule>& AllRules();

// Returns the row of a method; null if it has none.
const Rule* FindRule(std::string_view method);

// Returns OK if the identity may call the method. UNAUTHENTICATED (reason NO_ROLE) if the server does not know the
// identity or, reason TOKEN_NEEDED, the call has neither a name nor a token; PERMISSION_DENIED (reason ROLE_TOO_LOW) if
// its roles lack the right, or if the method has no row.
absl::Status CheckMethod(const Identity& identity, std::string_view method);

// Returns OK if the identity may change a job of this owner, PERMISSION_DENIED (reason NOT_YOUR_JOB) otherwise. `job`:
// its id, for the message.
absl::Status CheckOwner(const Identity& identity, std::string_view job, std::string_view owner);

// Returns OK if the identity may attach as the worker of this name, PERMISSION_DENIED (reason WRONG_WORKER) otherwise.
absl::Status CheckWorker(const Identity& identity, const std::string& worker);

}  // namespace ampd::server
