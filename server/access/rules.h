#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/identity.h"

namespace ampd::server {

// A row of the policy table: what a method of the API needs.
struct Rule {
  std::string_view method;  // "ampd.v1.JobService/CreateJob", or "GET /metrics" of a page over HTTP.
  Right right = Right::kNone;
  // An agent may call the method too, although it needs another right: it fetches the models of its jobs.
  bool agents_too = false;
  // What the request's `id` names, if anything. A job of a tenant in which the caller may not read does not exist for
  // it. To change a job of another owner needs kOperate.
  enum class Job { kNone, kRead, kChange };
  Job job = Job::kNone;
};

// What a job's record says about who may see and change it.
struct JobFacts {
  std::string tenant;
  std::string owner;
};

// All rows of the API's methods, ordered by method.
const std::vector<Rule>& AllRules();
// All rows of the pages of the HTTP listener, ordered likewise. HEAD needs what GET needs.
const std::vector<Rule>& PageRules();

// Returns the row of a method or page; null if it has none.
const Rule* FindRule(std::string_view method);

// Returns OK if the identity may call the method. UNAUTHENTICATED (reason NO_ROLE) if the server does not know the
// identity or, reason TOKEN_NEEDED, the call has neither a name nor a token; PERMISSION_DENIED (reason ROLE_TOO_LOW) if
// its roles lack the right, or if the method has no row.
absl::Status CheckMethod(const Identity& identity, std::string_view method);

// Whether the identity may call the method for every job, so that CheckJob need not be asked.
bool MayUseAllJobs(const Identity& identity, const Rule& rule);
// Whether the identity may know that the job exists.
bool MaySeeJob(const Identity& identity, const JobFacts& facts);
// Returns OK if the identity may call the method for this job, PERMISSION_DENIED otherwise: with reason ROLE_TOO_LOW
// or, if only the owner could, NOT_YOUR_JOB. `job`: its id, for the message. REQUIRES: MaySeeJob.
absl::Status CheckJob(const Identity& identity, const Rule& rule, const std::string& job, const JobFacts& facts);

// The tenant of what the caller makes: `wanted` or, if that is empty, the only tenant in which the identity may submit
// (or read, for estimates), or "default" if that is one of several. INVALID_ARGUMENT if there are several others;
// PERMISSION_DENIED (reason WRONG_TENANT) if the identity lacks the right in the tenant.
absl::StatusOr<std::string> ChooseTenant(const Identity& identity, Right right, const std::string& wanted);

// The tenants that a worker serves: those that it `wants` or, if it wants none, all that its identity is for.
// PERMISSION_DENIED (reason WRONG_TENANT) if it wants others.
absl::StatusOr<Tenants> ChooseWorkersTenants(const Identity& identity, const Tenants& wants);
// Returns OK if the identity may change a worker that serves these tenants. NOT_FOUND (reason WORKER_NOT_FOUND) if the
// worker serves none of the identity's tenants; PERMISSION_DENIED (reason ROLE_TOO_LOW) if it serves others too.
absl::Status CheckWorkersTenants(const Identity& identity, const std::string& worker, const Tenants& serves);

// Returns OK if the identity may attach as the worker of this name, PERMISSION_DENIED (reason WRONG_WORKER) otherwise.
absl::Status CheckWorker(const Identity& identity, const std::string& worker);

}  // namespace ampd::server
