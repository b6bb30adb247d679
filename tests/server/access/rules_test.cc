#include "server/access/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

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

constexpr Role kAllRoles[] = {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kAgent};

// The methods of all services of the API, by their full names.
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

Identity Somebody(Role role) { return {.name = "user:alice", .roles = {role}}; }

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

// The guard finds the job by the request's field "id".
TEST(Rules, AMethodThatChangesAJob_NamesItInTheFieldId) {
  const auto methods = AllMethods();
  for (const Rule& rule : AllRules()) {
    const google::protobuf::Descriptor* const request = methods.at(std::string(rule.method))->input_type();
    if (rule.changes_job) {
      ASSERT_NE(request->FindFieldByName("id"), nullptr) << rule.method;
      EXPECT_EQ(rule.right, Right::kSubmit) << rule.method;
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
  const Identity both = {.name = "user:alice", .roles = {Role::kViewer, Role::kAgent}};
  EXPECT_TRUE(CheckMethod(both, "ampd.v1.JobService/GetJob").ok());
  EXPECT_TRUE(CheckMethod(both, "ampd.v1.WorkerService/Attach").ok());
  EXPECT_EQ(std::string(CheckMethod(both, "ampd.v1.JobService/CreateJob").message()),
            "user:alice has the roles viewer and agent, but ampd.v1.JobService/CreateJob needs the role submitter, "
            "operator or admin");
}

TEST(CheckWorker, AnAgentIsOnlyTheWorkersThatItsPatternMatches) {
  const Identity any = {.name = "user:ampd", .roles = {Role::kAgent}};
  EXPECT_TRUE(CheckWorker(any, "w1").ok());
  const Identity gpus = {.name = "token:gpus", .roles = {Role::kAgent}, .workers = "gpu-*"};
  EXPECT_TRUE(CheckWorker(gpus, "gpu-1").ok());
  for (const char* const name : {"gpu", "cpu-1", "xgpu-1", ""}) {
    EXPECT_EQ(ReasonOf(CheckWorker(gpus, name)), "WRONG_WORKER") << name;
  }
}

TEST(CheckOwner, SubmittersChangeTheirOwnJobsOnly_OperatorsAll) {
  EXPECT_TRUE(CheckOwner(Somebody(Role::kSubmitter), "j-1", "user:alice").ok());
  for (const char* const owner : {"user:bob", "", "user:alice2", "USER:alice"}) {
    EXPECT_EQ(ReasonOf(CheckOwner(Somebody(Role::kSubmitter), "j-1", owner)), "NOT_YOUR_JOB") << owner;
    EXPECT_TRUE(CheckOwner(Somebody(Role::kOperator), "j-1", owner).ok());
    EXPECT_TRUE(CheckOwner(Somebody(Role::kAdmin), "j-1", owner).ok());
  }
}

// The page docs/access-table.md: what each role may call.
TEST(Rules, ThePage_EqualsTheTable) {
  std::string page =
      "# What each role may call\n\n<!-- Made from server/access/rules.cc by server_access_test with "
      "AMPD_UPDATE_GOLDEN=1. Do not edit. -->\n\n[access.md](access.md) explains the roles.\n\n";
  page += "| method | viewer | submitter | operator | admin | agent |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const Rule& rule : AllRules()) {
    absl::StrAppend(&page, "| ", std::string(rule.method.substr(std::string_view("ampd.v1.").size())));
    for (const Role role : kAllRoles) {
      const bool may = CheckMethod(Somebody(role), rule.method).ok();
      const bool all = !rule.changes_job || CheckOwner(Somebody(role), "j-1", "user:bob").ok();
      absl::StrAppend(&page, " | ", may ? all ? "yes" : "own jobs" : "");
    }
    absl::StrAppend(&page, " |\n");
  }
  ExpectGolden("docs/access-table.md", page);
}

}  // namespace
}  // namespace ampd::server
