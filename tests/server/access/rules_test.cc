#include "server/access/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/auth_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/error.h"
#include "tests/golden_file.h"

namespace ampd::server {
namespace {

using google::protobuf::MethodDescriptor;
using testing::HasSubstr;

constexpr Role kAllRoles[] = {Role::kViewer, Role::kSubmitter, Role::kOperator,
                              Role::kAdmin,  Role::kAgent,     Role::kScraper};

// Returns the methods of all services of the API. The key is the full name.
std::map<std::string, const MethodDescriptor*> AllMethods() {
  std::map<std::string, const MethodDescriptor*> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::GetJobRequest::descriptor()->file(), v1::ListArtifactsRequest::descriptor()->file(),
        v1::ListWorkersRequest::descriptor()->file(), v1::WorkerReport::descriptor()->file(),
        v1::ListTokensRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        const MethodDescriptor* const method = file->service(i)->method(k);
        methods[absl::StrCat(std::string(file->service(i)->full_name()), "/", std::string(method->name()))] = method;
      }
    }
  }
  return methods;
}

Identity Somebody(Role role) { return Identity::InAllTenants("user:alice", role); }

// Returns the identity of a user Alice who has these roles, each in some tenants.
Identity Alice(std::map<Role, Tenants> roles) { return {.name = "user:alice", .roles = std::move(roles)}; }

TEST(Rules, EveryMethodOfTheApiHasOneRow_AndNoOtherRowsExist) {
  std::vector<std::string> methods, rows;
  for (const auto& [name, _] : AllMethods()) {
    methods.push_back(name);
  }
  for (const Rule& rule : AllRules()) {
    rows.emplace_back(rule.method);
  }
  EXPECT_GT(methods.size(), 30u);
  EXPECT_EQ(rows, methods) << "rows are ordered by method";
}

// The guard finds the job of a request by the field "id", so no request may use that field for anything else.
TEST(Rules, AMethodNamesAJob_ExactlyIfItsRequestHasTheFieldId) {
  for (const auto& [name, method] : AllMethods()) {
    const Rule* const rule = FindRule(name);
    ASSERT_NE(rule, nullptr) << name;
    EXPECT_EQ(rule->job != Rule::Job::kNone, method->input_type()->FindFieldByName("id") != nullptr) << name;
    if (rule->job == Rule::Job::kChange) {
      EXPECT_EQ(rule->right, Right::kSubmit) << name;
    }
  }
}

TEST(Rules, AMethodWithoutARow_IsRefusedToEveryRole) {
  for (const Role role : kAllRoles) {
    EXPECT_EQ(ReasonOf(CheckMethod(Somebody(role), "ampd.v1.JobService/Unheard")), "ROLE_TOO_LOW");
  }
}

TEST(Rules, WithoutARole_OnlyTheVersionAndOnesOwnNameMayBeAsked) {
  const Identity stranger = {.name = "uid:1007", .roles = {}};
  for (const Rule& rule : AllRules()) {
    const absl::Status status = CheckMethod(stranger, rule.method);
    EXPECT_EQ(status.ok(), CheckMethod({}, rule.method).ok()) << rule.method;
    if (rule.method == "ampd.v1.JobService/GetServerInfo" || rule.method == "ampd.v1.AuthService/WhoAmI") {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(ReasonOf(CheckMethod({}, rule.method)), "TOKEN_NEEDED") << rule.method;
      EXPECT_EQ(ReasonOf(status), "NO_ROLE") << rule.method;
      EXPECT_THAT(std::string(status.message()), HasSubstr("--grant uid:1007=ROLE"));
    }
  }
}

TEST(Rules, AHigherRoleOfPeopleMayDoAllThatALowerOneMay) {
  for (const Rule& rule : AllRules()) {
    bool may_lower = false;
    for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin}) {
      const bool may = CheckMethod(Somebody(role), rule.method).ok();
      EXPECT_TRUE(may || !may_lower) << rule.method << " by " << RoleName(role);
      may_lower = may;
    }
    EXPECT_TRUE(may_lower) << "an admin may call " << rule.method;
  }
}

TEST(Rules, AnIdentityWithSeveralRoles_HasTheRightsOfAll) {
  const Identity both = Alice({{Role::kViewer, Tenants::All()}, {Role::kAgent, Tenants::All()}});
  EXPECT_TRUE(CheckMethod(both, "ampd.v1.JobService/GetJob").ok());
  EXPECT_TRUE(CheckMethod(both, "ampd.v1.WorkerService/Attach").ok());
  EXPECT_EQ(std::string(CheckMethod(both, "ampd.v1.JobService/CreateJob").message()),
            "user:alice has the roles viewer and agent, but needs the role submitter, operator or admin to "
            "create a job");
}

TEST(CheckWorker, AnAgentIsOnlyTheWorkersThatItsPatternMatches) {
  const Identity any = Identity::InAllTenants("user:ampd", Role::kAgent);
  EXPECT_TRUE(CheckWorker(any, "w1").ok());
  const Identity gpus = {.name = "token:gpus", .roles = {{Role::kAgent, Tenants::All()}}, .workers = "gpu-*"};
  EXPECT_TRUE(CheckWorker(gpus, "gpu-1").ok());
  for (const char* const name : {"gpu", "cpu-1", "xgpu-1", ""}) {
    EXPECT_EQ(ReasonOf(CheckWorker(gpus, name)), "WRONG_WORKER") << name;
  }
}

const Rule& CancelRule() { return *FindRule("ampd.v1.JobService/CancelJob"); }
const Rule& GetRule() { return *FindRule("ampd.v1.JobService/GetJob"); }

// What an identity may do with a tenant's jobs: whether it sees them, and why it may not cancel a job of Alice (`own`)
// or a job of Bob (`others`); empty: it may.
struct View {
  bool sees = false;
  std::string own;
  std::string others;

  bool operator==(const View&) const = default;
};

View ViewOf(const Identity& identity, const std::string& tenant) {
  const JobFacts own{tenant, "user:alice"}, others{tenant, "user:bob"};
  if (!MaySeeJob(identity, own)) {
    return {};
  }
  EXPECT_TRUE(CheckJob(identity, GetRule(), "j-1", own).ok());
  return {true, ReasonOf(CheckJob(identity, CancelRule(), "j-1", own)),
          ReasonOf(CheckJob(identity, CancelRule(), "j-1", others))};
}

TEST(CheckJob, EachRoleCountsInItsTenantsOnly) {
  const Tenants vision({"vision"});
  const View none, reads = {true, "ROLE_TOO_LOW", "ROLE_TOO_LOW"}, submits = {true, "", "NOT_YOUR_JOB"},
                   all = {true, "", ""};
  EXPECT_EQ(ViewOf(Alice({{Role::kViewer, vision}}), "vision"), reads);
  EXPECT_EQ(ViewOf(Alice({{Role::kSubmitter, vision}}), "vision"), submits);
  EXPECT_EQ(ViewOf(Alice({{Role::kOperator, vision}}), "vision"), all);
  for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kOperator}) {
    for (const char* const tenant : {"nlp", "default", "visio", "visions", "*", ""}) {
      EXPECT_EQ(ViewOf(Alice({{role, vision}}), tenant), none) << RoleName(role) << " " << tenant;
    }
  }
  EXPECT_EQ(ViewOf(Somebody(Role::kAdmin), "vision"), all);
  EXPECT_EQ(ViewOf(Somebody(Role::kAgent), "vision"), none);
  EXPECT_EQ(ViewOf(Somebody(Role::kScraper), "vision"), none);
  const Identity mixed = Alice({{Role::kViewer, Tenants({"nlp"})}, {Role::kOperator, vision}});
  EXPECT_EQ(ViewOf(mixed, "nlp"), reads);
  EXPECT_EQ(ViewOf(mixed, "vision"), all);
}

TEST(CheckJob, SubmittersChangeTheirOwnJobsOnly) {
  for (const char* const owner : {"user:bob", "", "user:alice2", "USER:alice"}) {
    EXPECT_EQ(ReasonOf(CheckJob(Somebody(Role::kSubmitter), CancelRule(), "j-1", {"default", owner})), "NOT_YOUR_JOB");
  }
}

TEST(MayUseAllJobs, OnlyIfNoJobNeedsToBeLookedAt) {
  EXPECT_TRUE(MayUseAllJobs(Somebody(Role::kViewer), GetRule()));
  EXPECT_FALSE(MayUseAllJobs(Somebody(Role::kSubmitter), CancelRule()));
  EXPECT_TRUE(MayUseAllJobs(Somebody(Role::kOperator), CancelRule()));
  EXPECT_FALSE(MayUseAllJobs(Alice({{Role::kOperator, Tenants({"vision"})}}), GetRule()));
  EXPECT_TRUE(MayUseAllJobs(Alice({}), *FindRule("ampd.v1.JobService/ListJobs")));
}

TEST(ChooseTenant, TheWantedOneOrTheOnlyOne) {
  const auto choose = [](const Tenants& tenants, const std::string& wanted) {
    const absl::StatusOr<std::string> tenant =
        ChooseTenant(Alice({{Role::kSubmitter, tenants}}), Right::kSubmit, wanted);
    return tenant.ok() ? *tenant : ReasonOf(tenant.status());
  };
  EXPECT_EQ(choose(Tenants({"vision"}), ""), "vision");
  EXPECT_EQ(choose(Tenants({"vision"}), "vision"), "vision");
  EXPECT_EQ(choose(Tenants({"vision"}), "nlp"), "WRONG_TENANT");
  EXPECT_EQ(choose(Tenants({"vision"}), "default"), "WRONG_TENANT");
  EXPECT_EQ(choose(Tenants({"nlp", "vision"}), ""), "INVALID_FIELDS");
  EXPECT_EQ(choose(Tenants({"nlp", "vision"}), "nlp"), "nlp");
  EXPECT_EQ(choose(Tenants({"default", "vision"}), ""), "default");
  EXPECT_EQ(choose(Tenants::All(), ""), "default");
  EXPECT_EQ(choose(Tenants::All(), "any-one"), "any-one");
  for (const char* const bad : {"*", "Vision", "a/b", "1a", " ", "a\n"}) {
    EXPECT_EQ(choose(Tenants::All(), bad), "INVALID_FIELDS") << bad;
  }
}

TEST(ChooseWorkersTenants, AtMostThoseOfTheIdentity) {
  const Identity agent = Alice({{Role::kAgent, Tenants({"nlp", "vision"})}});
  EXPECT_EQ(*ChooseWorkersTenants(agent, Tenants()), Tenants({"nlp", "vision"}));
  EXPECT_EQ(*ChooseWorkersTenants(agent, Tenants({"nlp"})), Tenants({"nlp"}));
  EXPECT_EQ(ReasonOf(ChooseWorkersTenants(agent, Tenants({"nlp", "default"})).status()), "WRONG_TENANT");
  EXPECT_EQ(*ChooseWorkersTenants(Somebody(Role::kAgent), Tenants()), Tenants::All());
  EXPECT_EQ(*ChooseWorkersTenants(Somebody(Role::kAgent), Tenants({"nlp"})), Tenants({"nlp"}));
}

// In a worker's registration no tenant stands for all tenants, so an identity without rights must not get that far.
TEST(ChooseWorkersTenants, AnIdentityThatIsNoAgentGetsNone) {
  for (const Tenants& wants : {Tenants(), Tenants({"nlp"})}) {
    EXPECT_EQ(ReasonOf(ChooseWorkersTenants(Identity(), wants).status()), "WRONG_TENANT");
    EXPECT_EQ(ReasonOf(ChooseWorkersTenants(Somebody(Role::kViewer), wants).status()), "WRONG_TENANT");
  }
}

TEST(CheckWorkersTenants, AnOperatorChangesWorkersThatServeNoOtherTenant) {
  const Tenants vision({"vision"});
  const Identity operates = Alice({{Role::kOperator, vision}});
  EXPECT_TRUE(CheckWorkersTenants(operates, "w1", vision).ok());
  EXPECT_EQ(ReasonOf(CheckWorkersTenants(operates, "w1", Tenants::All())), "ROLE_TOO_LOW");
  EXPECT_EQ(ReasonOf(CheckWorkersTenants(operates, "w1", Tenants({"nlp", "vision"}))), "ROLE_TOO_LOW");
  EXPECT_EQ(ReasonOf(CheckWorkersTenants(operates, "w1", Tenants({"nlp"}))), "WORKER_NOT_FOUND");
  EXPECT_TRUE(CheckWorkersTenants(Somebody(Role::kOperator), "w1", Tenants::All()).ok());
  EXPECT_TRUE(CheckWorkersTenants(Somebody(Role::kAdmin), "w1", Tenants({"nlp"})).ok());
}

// The table in docs/access-table.md must equal the rules in the code.
TEST(Rules, ThePage_EqualsTheTable) {
  std::string page =
      "# What each role may call\n\n<!-- Made from server/access/rules.cc by server_access_test with "
      "AMPD_UPDATE_GOLDEN=1. Do not edit. -->\n\n[access.md](access.md) explains the roles.\n\n";
  page +=
      "| method | viewer | submitter | operator | admin | agent | scraper |\n| --- | --- | --- | --- | --- | --- | --- "
      "|\n";
  for (const Rule& rule : AllRules()) {
    absl::StrAppend(&page, "| ", std::string(rule.method.substr(std::string_view("ampd.v1.").size())));
    for (const Role role : kAllRoles) {
      const bool may = CheckMethod(Somebody(role), rule.method).ok();
      const bool all = rule.job != Rule::Job::kChange || !MaySeeJob(Somebody(role), {"default", ""}) ||
                       CheckJob(Somebody(role), rule, "j-1", {"default", "user:bob"}).ok();
      absl::StrAppend(&page, " | ", may ? all ? "yes" : "own jobs" : "");
    }
    absl::StrAppend(&page, " |\n");
  }
  for (const Rule& rule : PageRules()) {
    absl::StrAppend(&page, "| ", std::string(rule.method));
    for (const Role role : kAllRoles) {
      absl::StrAppend(&page, " | ", CheckMethod(Somebody(role), rule.method).ok() ? "yes" : "");
    }
    absl::StrAppend(&page, " |\n");
  }
  ExpectGolden("docs/access-table.md", page);
}

}  // namespace
}  // namespace ampd::server
