#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/identity.h"

namespace ampd::server {

// A row of the access table: the right that a caller needs for one method of the API.
struct Rule {
  std::string_view method;  // "ampd.v1.JobService/CreateJob"; for a page over HTTP "GET /metrics".
  Right right = Right::kNone;
  // Whether agents may call the method too, although they lack `right`. For example, an agent must fetch the models of
  // its jobs.
  bool agents_too = false;
  // Whether the request's `id` names a job, and whether the method only reads that job or changes it. If the caller may
  // not read in the job's tenant, the call fails as if the job did not exist. To change another owner's job, the caller
  // needs kOperate.
  enum class Job { kNone, kRead, kChange };
  Job job = Job::kNone;
};

// The fields of a job's record that decide who may see and change the job.
struct JobFacts {
  std::string tenant;
  std::string owner;
};

// Returns the rows of all API methods, ordered by method.
const std::vector<Rule>& AllRules();
// Returns the access rules of all pages of the HTTP listener, ordered by method. HEAD follows the rule of GET.
const std::vector<Rule>& PageRules();

// Returns the row of a method or page, or null if there is none.
const Rule* FindRule(std::string_view method);

// Returns OK if the identity may call the method. Otherwise returns
//
//   UNAUTHENTICATED    (TOKEN_NEEDED) the identity has neither a name nor a role
//                      (NO_ROLE) the identity has a name, but no role
//   PERMISSION_DENIED  (ROLE_TOO_LOW) the identity's roles lack the right, or there is no rule for the method
absl::Status CheckMethod(const Identity& identity, std::string_view method);

// Returns the tenants in which the identity may call the method.
Tenants TenantsForCall(const Identity& identity, std::string_view method);

// Whether the identity may call the method for every job; the caller of this function then need not call CheckJob.
bool MayUseAllJobs(const Identity& identity, const Rule& rule);
// Whether the identity may know that the job exists.
bool MaySeeJob(const Identity& identity, const JobFacts& facts);
// Returns OK if the identity may call the method for this job, and PERMISSION_DENIED if not. The reason is ROLE_TOO_LOW
// if the identity lacks the right in the job's tenant. The reason is NOT_YOUR_JOB if the identity may change only its
// own jobs, and the job has another owner. `job` is the job's id, for the message. REQUIRES: MaySeeJob.
absl::Status CheckJob(const Identity& identity, const Rule& rule, const std::string& job, const JobFacts& facts);

// Chooses the tenant of what the caller creates. `right` is kSubmit or, for estimates, kRead. Returns the first of
// these that applies:
// * `wanted`, if it is not empty. PERMISSION_DENIED (reason WRONG_TENANT) if the identity lacks the right there.
// * "default", if the identity has the right in the tenant "default".
// * The only tenant in which the identity has the right.
// INVALID_ARGUMENT if none applies, or if `wanted` is not a valid name.
absl::StatusOr<std::string> ChooseTenant(const Identity& identity, Right right, const std::string& wanted);

// Returns the tenants that a worker with this identity serves: `wants` or, if `wants` is empty, all tenants in which
// the identity is an agent. Never returns the empty set. PERMISSION_DENIED (reason WRONG_TENANT) if `wants` has other
// tenants, or if there are none in which the identity is an agent.
absl::StatusOr<Tenants> ChooseWorkersTenants(const Identity& identity, const Tenants& wants);
// Returns OK if the identity may change a worker that serves these tenants. NOT_FOUND (reason WORKER_NOT_FOUND) if the
// worker serves none of the identity's tenants. PERMISSION_DENIED (reason ROLE_TOO_LOW) if the worker also serves
// tenants that are not the identity's.
absl::Status CheckWorkersTenants(const Identity& identity, const std::string& worker, const Tenants& serves);

// Returns OK if the identity may connect as the worker with this name. Otherwise PERMISSION_DENIED (reason
// WRONG_WORKER).
absl::Status CheckWorker(const Identity& identity, const std::string& worker);

}  // namespace ampd::server
