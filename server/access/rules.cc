#include "server/access/rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

// Whether the role permits the method of this rule.
bool May(Role role, const Rule& rule) { return Has(role, rule.right) || (rule.agents_too && role == Role::kAgent); }

// Describes an identity and its roles: "user:alice has the role viewer".
std::string Shown(const Identity& identity) {
  return absl::StrCat(identity.name, identity.roles.size() > 1 ? " has the roles " : " has the role ",
                      RoleNames(identity.role_names(), " and "));
}

// Returns the roles that may call the method: "viewer, submitter, operator or admin".
std::string NeededRoles(const Rule& rule) {
  std::set<Role> roles;
  for (const Role role :
       {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kAgent, Role::kScraper}) {
    if (May(role, rule)) {
      roles.insert(role);
    }
  }
  return RoleNames(roles, " or ");
}

// Returns in words what the method does: "list audit entries" for "ampd.v1.AuthService/ListAuditEntries", "cancel a
// job" for "ampd.v1.JobService/CancelJob".
std::string WantOf(std::string_view method) {
  const std::string_view name = method.substr(method.rfind('/') + 1);
  const bool is_one = !name.ends_with('s') && !name.ends_with('y');  // A plural, or "telemetry", takes no article.
  std::string words;
  int num_words = 0;
  for (const char c : name) {
    if (absl::ascii_isupper(c) && ++num_words > 1) {
      const bool has_vowel = std::string_view("AEIO").find(c) != std::string_view::npos;
      words += num_words > 2 || !is_one ? " " : has_vowel ? " an " : " a ";
    }
    words += absl::ascii_tolower(c);
  }
  return words;
}

// Explains why the roles do not suffice: "user:alice has the role viewer, but needs the role admin to list audit
// entries".
std::string WhyTooLow(const Identity& identity, const Rule& rule) {
  const bool is_page = rule.method.starts_with("GET ");
  return absl::StrCat(Shown(identity), ", but ", is_page ? absl::StrCat(std::string(rule.method), " ") : "",
                      "needs the role ", NeededRoles(rule), is_page ? "" : absl::StrCat(" to ", WantOf(rule.method)));
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
      {.method = "ampd.v1.JobService/CancelJob", .right = Right::kSubmit, .job = Rule::Job::kChange},
      {.method = "ampd.v1.JobService/CloneJob", .right = Right::kSubmit, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/CreateJob", .right = Right::kSubmit},
      {.method = "ampd.v1.JobService/DeleteCheckpoint", .right = Right::kSubmit, .job = Rule::Job::kChange},
      {.method = "ampd.v1.JobService/DeleteJob", .right = Right::kSubmit, .job = Rule::Job::kChange},
      {.method = "ampd.v1.JobService/DownloadCheckpointFile", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/EstimateJob", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ExplainJob", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/FindJobs", .right = Right::kRead},
      {.method = "ampd.v1.JobService/GetJob", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/GetServerInfo", .right = Right::kNone},
      {.method = "ampd.v1.JobService/ListCheckpoints", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/ListEvents", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/ListJobs", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ListMetricPoints", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/PauseJob", .right = Right::kSubmit, .job = Rule::Job::kChange},
      {.method = "ampd.v1.JobService/ResolvePolicy", .right = Right::kRead},
      {.method = "ampd.v1.JobService/ResumeJob", .right = Right::kSubmit, .job = Rule::Job::kChange},
      {.method = "ampd.v1.JobService/TailLogs", .right = Right::kRead, .job = Rule::Job::kRead},
      {.method = "ampd.v1.JobService/UpdateJob", .right = Right::kSubmit, .job = Rule::Job::kChange},
      {.method = "ampd.v1.JobService/WatchJob", .right = Right::kRead, .job = Rule::Job::kRead},
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

const std::vector<Rule>& PageRules() {
  static const auto* const kRules = new std::vector<Rule>{
      {.method = "GET /healthz", .right = Right::kNone},
      {.method = "GET /metrics", .right = Right::kScrape},
      {.method = "GET /readyz", .right = Right::kNone},
      {.method = "GET /sd/workers", .right = Right::kScrape},
  };
  return *kRules;
}

const Rule* FindRule(std::string_view method) {
  for (const std::vector<Rule>* const rules : {&AllRules(), &PageRules()}) {
    const auto found = std::lower_bound(rules->begin(), rules->end(), method,
                                        [](const Rule& rule, std::string_view name) { return rule.method < name; });
    if (found != rules->end() && found->method == method) {
      return &*found;
    }
  }
  return nullptr;
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
    const bool has_jwt = identity.name.starts_with("oidc:");
    return Error(
        absl::StatusCode::kUnauthenticated, "NO_ROLE",
        absl::StrCat(identity.name, " has no role on this server; its administrator gives one with ampd-server ",
                     has_jwt ? "--oidc-role CLAIM:VALUE" : absl::StrCat("--grant ", identity.name), "=ROLE"));
  }
  if (rule == nullptr) {
    return Error(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                 absl::StrCat("no role may call ", std::string(method)));
  }
  return std::any_of(identity.roles.begin(), identity.roles.end(),
                     [rule](const auto& role) { return May(role.first, *rule); })
             ? absl::OkStatus()
             : Error(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW", WhyTooLow(identity, *rule));
}

Tenants TenantsForCall(const Identity& identity, std::string_view method) {
  const Rule* const rule = FindRule(method);
  Tenants tenants;
  for (const auto& [role, where] : identity.roles) {
    if (rule != nullptr && May(role, *rule)) {
      tenants.Add(where);
    }
  }
  return tenants;
}

bool MayUseAllJobs(const Identity& identity, const Rule& rule) {
  return rule.job == Rule::Job::kNone ||
         (identity.TenantsWith(Right::kRead).all() && identity.TenantsWith(rule.right).all() &&
          (rule.job == Rule::Job::kRead || identity.TenantsWith(Right::kOperate).all()));
}

bool MaySeeJob(const Identity& identity, const JobFacts& facts) {
  return identity.TenantsWith(Right::kRead).Has(facts.tenant);
}

absl::Status CheckJob(const Identity& identity, const Rule& rule, const std::string& job, const JobFacts& facts) {
  if (rule.job == Rule::Job::kRead || identity.TenantsWith(Right::kOperate).Has(facts.tenant)) {
    return absl::OkStatus();
  }
  if (!identity.TenantsWith(rule.right).Has(facts.tenant)) {
    return Error(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
                 absl::StrCat(Shown(identity), ", but in the tenant ", facts.tenant, " it may only read"));
  }
  if (identity.name == facts.owner) {
    return absl::OkStatus();
  }
  return Error(absl::StatusCode::kPermissionDenied, "NOT_YOUR_JOB",
               absl::StrCat("job ", job, " belongs to ", facts.owner.empty() ? "an unknown user" : facts.owner, "; ",
                            Shown(identity), ", and only an operator or admin may change the jobs of others"));
}

absl::StatusOr<std::string> ChooseTenant(const Identity& identity, Right right, const std::string& wanted) {
  const Tenants tenants = identity.TenantsWith(right);
  const char* const what = right == Right::kSubmit ? "submit" : "read";
  if (!wanted.empty()) {
    AMPD_RETURN_IF_ERROR(CheckTenantName("tenant", wanted));
    return tenants.Has(wanted) ? absl::StatusOr<std::string>(wanted)
                               : Error(absl::StatusCode::kPermissionDenied, "WRONG_TENANT",
                                       absl::StrCat(identity.name, " may ", what, " for ", tenants.ToString(),
                                                    ", not for the tenant ", wanted));
  }
  if (tenants.Has(kDefaultTenant)) {
    return std::string(kDefaultTenant);
  }
  return tenants.names().size() == 1
             ? absl::StatusOr<std::string>(*tenants.names().begin())
             : InvalidFields({{"tenant", absl::StrCat("must be set (--tenant): ", identity.name, " may ", what, " for ",
                                                      tenants.ToString())}});
}

absl::StatusOr<Tenants> ChooseWorkersTenants(const Identity& identity, const Tenants& wants) {
  Tenants may = identity.TenantsWith(Right::kWork);
  if (may.empty()) {
    return Error(absl::StatusCode::kPermissionDenied, "WRONG_TENANT",
                 absl::StrCat(identity.name, " may not work for any tenant: it needs the role agent"));
  }
  if (wants.empty()) {
    return may;
  }
  return may.Contain(wants) ? absl::StatusOr<Tenants>(wants)
                            : Error(absl::StatusCode::kPermissionDenied, "WRONG_TENANT",
                                    absl::StrCat(identity.name, " may work for ", may.ToString(),
                                                 ", and the worker was started for ", wants.ToString(), " (--tenant)"));
}

absl::Status CheckWorkersTenants(const Identity& identity, const std::string& worker, const Tenants& serves) {
  const Tenants operates = identity.TenantsWith(Right::kOperate);
  if (operates.Contain(serves)) {
    return absl::OkStatus();
  }
  const Tenants reads = identity.TenantsWith(Right::kRead);
  const auto& names = serves.names();
  if (!serves.all() && std::none_of(names.begin(), names.end(), [&](const auto& name) { return reads.Has(name); })) {
    return Error(absl::StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("there is no worker ", worker));
  }
  return Error(absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW",
               absl::StrCat(identity.name, " is an operator of ", operates.ToString(), ", and worker ", worker,
                            " serves other tenants too; an operator of all tenants or an admin may change it"));
}

absl::Status CheckWorker(const Identity& identity, const std::string& worker) {
  return GlobMatches(identity.workers, worker)
             ? absl::OkStatus()
             : Error(absl::StatusCode::kPermissionDenied, "WRONG_WORKER",
                     absl::StrCat(identity.name, " is for the worker ", identity.workers, ", not for ", worker,
                                  "; start the worker with that --name, or with a token or certificate of its own"));
}

}  // namespace ampd::server
