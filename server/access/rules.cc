#include "server/access/rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"

namespace ampd::server {
namespace {

// Whether a role may call the method of a rule.
bool May(Role role, const Rule& rule) { return Has(role, rule.right) || (rule.agents_too && role == Role::kAgent); }

// "user:alice has the role viewer".
std::string Shown(const Identity& identity) {
  return absl::StrCat(identity.name, identity.roles.size() > 1 ? " has the roles " : " has the role ",
                      RoleNames(identity.roles, " and "));
}

// "viewer, submitter, operator or admin": the roles that may call the method.
std::string NeededRoles(const Rule& rule) {
  std::set<Role> roles;
  for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kAgent}) {
    if (May(role, rule)) {
      roles.insert(role);
    }
  }
  return RoleNames(roles, " or ");
}

}  // namespace

const std::vector<Rule>& AllRules() {
  static const auto* const kRules = new std::vector<Rule>{
      {.method = "ampd.v1.ArtifactService/DeleteArtifact", .right = Right::kOperate},
      {.method = "ampd.v1.ArtifactService/DownloadArtifact", .right = Right::kRead, .agents_too = true},
      {.method = "ampd.v1.ArtifactService/GetUpload", .right = Right::kSubmit},
      {.method = "ampd.v1.ArtifactService/ListArtifacts", .right = Right::kRead},
      {.method = "ampd.v1.ArtifactService/UploadArtifact", .right = Right::kSubmit},
      {.method = "ampd.v1.AuthService/CreateToken", .right = Right::kAdminister},
      {.method = "ampd.v1.AuthService/ListAuditEntries", .right = Right::kAdminister},
      {.method = "ampd.v1.AuthService/ListTokens", .right = Right::kAdminister},
      {.method = "ampd.v1.AuthService/RevokeToken", .right = Right::kAdminister},
      {.method = "ampd.v1.AuthService/WhoAmI", .right = Right::kNone},
      {.method = "ampd.v1.JobService/CancelJob", .right = Right::kSubmit, .changes_job = true},
      {.method = "ampd.v1.JobService/CloneJob", .right = Right::kSubmit},
      {.method = "ampd.v1.JobService/CreateJob", .right = Right::kSubmit},
      {.method = "ampd.v1.JobService/DeleteCheckpoint", .right = Right::kSubmit, .changes_job = true},
      {.method = "ampd.v1.JobService/DeleteJob", .right = Right::kSubmit, .changes_job = true},
      {.method = "ampd.v1.JobService/DownloadCheckpointFile", .right = Right::kRead},
      {.method = "ampd.v1.JobService/EstimateJob", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ExplainJob", .right = Right::kRead},
      {.method = "ampd.v1.JobService/FindJobs", .right = Right::kRead},
      {.method = "ampd.v1.JobService/GetJob", .right = Right::kRead},
      {.method = "ampd.v1.JobService/GetServerInfo", .right = Right::kNone},
      {.method = "ampd.v1.JobService/ListCheckpoints", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ListEvents", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ListJobs", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ListMetricPoints", .right = Right::kRead},
      {.method = "ampd.v1.JobService/PauseJob", .right = Right::kSubmit, .changes_job = true},
      {.method = "ampd.v1.JobService/ResolvePolicy", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ResumeJob", .right = Right::kSubmit, .changes_job = true},
      {.method = "ampd.v1.JobService/TailLogs", .right = Right::kRead},
      {.method = "ampd.v1.JobService/UpdateJob", .right = Right::kSubmit, .changes_job = true},
      {.method = "ampd.v1.JobService/WatchJob", .right = Right::kRead},
      {.method = "ampd.v1.WorkerAdminService/DrainWorker", .right = Right::kOperate},
      {.method = "ampd.v1.WorkerAdminService/ListWorkers", .right = Right::kRead},
      {.method = "ampd.v1.WorkerAdminService/RemoveWorker", .right = Right::kOperate},
      {.method = "ampd.v1.WorkerAdminService/UndrainWorker", .right = Right::kOperate},
      {.method = "ampd.v1.WorkerService/Attach", .right = Right::kWork},
      {.method = "ampd.v1.WorkerService/ReportTelemetry", .right = Right::kWork},
      {.method = "ampd.v1.WorkerService/SendFile", .right = Right::kWork},
  };
  return *kRules;
}

const Rule* FindRule(std::string_view method) {
  const std::vector<Rule>& rules = AllRules();
  const auto found = std::lower_bound(rules.begin(), rules.end(), method,
                                      [](const Rule& rule, std::string_view name) { return rule.method < name; });
  return found != rules.end() && found->method == method ? &*found : nullptr;
}

absl::Status CheckMethod(const Identity& identity, std::string_view method) {
  const Rule* const rule = FindRule(method);
  if (rule != nullptr && rule->right == Right::kNone) {
    return absl::OkStatus();
  }
  if (identity.roles.empty() && identity.name.empty()) {
    return Error(absl::StatusCode::kUnauthenticated, "TOKEN_NEEDED",
                 "calls to this address need a token: an administrator makes one with ampctl auth token create; give "
                 "it with --token-file FILE or in AMPD_TOKEN (or, with TLS, a certificate: --cert FILE --key FILE)");
  }
  if (identity.roles.empty()) {
    return Error(
        absl::StatusCode::kUnauthenticated, "NO_ROLE",
        absl::StrCat(identity.name, " has no role on this server; its administrator gives one with ampd-server ",
                     "--grant ", identity.name, "=ROLE"));
  }
  if (rule == nullptr) {
    return Error(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                 absl::StrCat("no role may call ", std::string(method)));
  }
  return std::any_of(identity.roles.begin(), identity.roles.end(), [rule](Role role) { return May(role, *rule); })
             ? absl::OkStatus()
             : Error(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                     absl::StrCat(Shown(identity), ", but ", std::string(method), " needs the role ",
                                  NeededRoles(*rule)));
}

absl::Status CheckOwner(const Identity& identity, std::string_view job, std::string_view owner) {
  if (identity.has(Right::kOperate) || identity.name == owner) {
    return absl::OkStatus();
  }
  return Error(
      absl::StatusCode::kPermissionDenied, "NOT_YOUR_JOB",
      absl::StrCat("job ", std::string(job), " belongs to ", owner.empty() ? "an unknown user" : std::string(owner),
                   "; ", Shown(identity), ", and only an operator or admin may change the jobs of others"));
}

absl::Status CheckWorker(const Identity& identity, const std::string& worker) {
  return GlobMatches(identity.workers, worker)
             ? absl::OkStatus()
             : Error(absl::StatusCode::kPermissionDenied, "WRONG_WORKER",
                     absl::StrCat(identity.name, " is for the worker ", identity.workers, ", not for ", worker,
                                  "; start the worker with that --name, or with a token or certificate of its own"));
}

}  // namespace ampd::server
