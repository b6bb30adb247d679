// Tests tokens at a real server: what a call with a token may do, which texts count as a token, and what happens when a
// token expires or is revoked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/error.h"
#include "base/grpc/channel.h"
#include "base/grpc/grpc_status.h"
#include "server/access/rules.h"
#include "tests/count_from_environment.h"
#include "tests/server/rpc/empty_call.h"
#include "tests/server/rpc/open_watch.h"
#include "tests/server/rpc/token_server.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

// Returns the caller that the server identifies for calls with these `authorization` headers, or the error if it
// refuses.
absl::StatusOr<v1::Caller> WhoIs(v1::AuthService::Stub& auth, const std::vector<std::string>& authorizations) {
  const auto context = Context();
  for (const std::string& authorization : authorizations) {
    context->AddMetadata("authorization", authorization);
  }
  v1::Caller caller;
  const grpc::Status status = auth.WhoAmI(context.get(), v1::WhoAmIRequest(), &caller);
  return status.ok() ? absl::StatusOr<v1::Caller>(caller) : FromGrpcStatus(status);
}

constexpr std::pair<v1::Role, Role> kRoles[] = {{v1::VIEWER, Role::kViewer},     {v1::SUBMITTER, Role::kSubmitter},
                                                {v1::OPERATOR, Role::kOperator}, {v1::ADMIN, Role::kAdmin},
                                                {v1::AGENT, Role::kAgent},       {v1::SCRAPER, Role::kScraper}};

TEST(TokenAccess, EveryMethodIsRefusedExactlyToTheTokensWhoseRoleLacksItsRight) {
  TokenServer server;
  for (const auto& [shown, role] : kRoles) {
    const std::string name = absl::AsciiStrToLower(v1::Role_Name(shown));
    const auto access = server.With(server.Create(name, shown, shown == v1::AGENT ? "*" : ""));
    for (const Rule& rule : AllRules()) {
      const bool may = CheckMethod(Identity::InAllTenants("token:x", role), rule.method).ok();
      const absl::Status status = CallEmpty(*access, rule.method);
      EXPECT_NE(ReasonOf(status) == "ROLE_TOO_LOW", may) << rule.method << " by " << name << ": " << status;
      EXPECT_NE(status.code(), absl::StatusCode::kUnauthenticated) << rule.method << " by " << name;
    }
  }
}

TEST(TokenAccess, WithoutATokenOnlyWhatNeedsNoRightIsAnswered) {
  TokenServer server;
  for (const Rule& rule : AllRules()) {
    const absl::Status status = CallEmpty(server.loopback(), rule.method);
    EXPECT_EQ(ReasonOf(status) == "TOKEN_NEEDED", rule.right != Right::kNone) << rule.method << ": " << status;
  }
}

TEST(TokenAccess, ATokenCountsMoreThanTheConnection) {
  TokenServer server;
  const std::string viewer = server.Create("viewer", v1::VIEWER);
  v1::AuthService::Stub on_socket(server.admin().NewChannel());
  EXPECT_THAT(WhoIs(on_socket, {})->roles(), testing::ElementsAre(v1::ADMIN));
  const auto caller = WhoIs(on_socket, {"Bearer " + viewer});
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->name(), "token:viewer");
  EXPECT_THAT(caller->roles(), testing::ElementsAre(v1::VIEWER));
  EXPECT_EQ(caller->token().name(), "viewer");
  EXPECT_EQ(ReasonOf(WhoIs(on_socket, {"Bearer ampd_wrong"}).status()), "TOKEN_UNKNOWN");
}

// Returns the secret with one random change.
std::string Mutated(const std::string& secret, std::mt19937& random) {
  const auto draw = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  std::string changed = secret;
  const size_t at = draw(changed.size());
  switch (draw(8)) {
    case 0:  // Replace a character.
      changed[at] = static_cast<char>('!' + draw(94));
      break;
    case 1:  // Flip one bit.
      changed[at] = static_cast<char>(changed[at] ^ (1 << draw(7)));
      break;
    case 2:
      changed.erase(at, 1 + draw(8));
      break;
    case 3:
      changed.insert(at, 1, static_cast<char>('!' + draw(94)));
      break;
    case 4:
      std::swap(changed[at], changed[draw(changed.size())]);
      break;
    case 5:
      changed[at] = absl::ascii_toupper(static_cast<unsigned char>(changed[at]));
      break;
    case 6:
      changed = changed.substr(at) + changed.substr(0, at);
      break;
    case 7:
      changed += changed.substr(at);
      break;
  }
  return changed;
}

TEST(TokenAccess, OfManyMutatedTokensNoneIsAccepted_AndTheOneBetweenThemAlwaysIs) {
  TokenServer server;
  const std::string secret = server.Create("ci", v1::ADMIN);
  const auto auth = server.Auth();
  std::mt19937 random(4711);
  const int64_t num_wanted = CountFromEnvironment("AMPD_TOKEN_MUTATIONS", 10'000);
  int64_t num_mutated = 0;
  while (num_mutated < num_wanted) {
    const std::string changed = Mutated(secret, random);
    const bool can_travel = std::all_of(changed.begin(), changed.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (changed == secret || !can_travel) {
      continue;  // gRPC's client does not send such a header.
    }
    ++num_mutated;
    const auto caller = WhoIs(*auth, {"Bearer " + changed});
    ASSERT_FALSE(caller.ok()) << changed;
    ASSERT_EQ(caller.status().code(), absl::StatusCode::kUnauthenticated) << changed << ": " << caller.status();
    if (num_mutated % 100 == 0) {
      ASSERT_EQ(WhoIs(*auth, {"Bearer " + secret})->name(), "token:ci");
    }
  }
}

TEST(TokenAccess, AnAuthorizationOfAnotherFormIsRefused_AndNeverTakenForNone) {
  TokenServer server;
  const std::string secret = server.Create("ci", v1::VIEWER);
  for (const auto& auth : {server.Auth(), v1::AuthService::NewStub(server.admin().NewChannel())}) {
    for (const std::vector<std::string>& sent :
         std::vector<std::vector<std::string>>{{secret},
                                               {"Bearer"},
                                               {"Bearer "},
                                               {"Basic " + secret},
                                               {"Bearer" + secret},

                                               {"Bearer " + secret, "Bearer " + secret},
                                               {"Bearer " + secret + ", Bearer " + secret},
                                               {"Token " + secret},
                                               {"Bearer  " + secret},
                                               {"Bearer " + secret + " x"},
                                               {""}}) {
      const auto caller = WhoIs(*auth, sent);
      EXPECT_FALSE(caller.ok()) << sent[0] << " is " << caller->DebugString();
    }
    EXPECT_TRUE(WhoIs(*auth, {"bearer " + secret}).ok()) << "the case of the scheme does not matter";
  }
}

TEST(TokenAccess, JobsBelongToTheToken) {
  TokenServer server;
  const auto ci = server.With(server.Create("ci", v1::SUBMITTER));
  const auto other = server.With(server.Create("other", v1::SUBMITTER));
  const v1::Job job = ci->CreateJob(GoodSpec("ci"));
  EXPECT_EQ(job.owner(), "token:ci");
  v1::CancelJobRequest cancel;
  cancel.set_id(job.id());
  v1::Job answer;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(other->jobs().CancelJob(Context().get(), cancel, &answer))), "NOT_YOUR_JOB");
  EXPECT_TRUE(ci->jobs().CancelJob(Context().get(), cancel, &answer).ok());
}

TEST(TokenAccess, AnAgentsTokenIsForItsWorkersOnly) {
  TokenServer server;
  const auto agents = server.With(server.Create("gpus", v1::AGENT, "gpu-*"));
  ScriptedWorker good(agents.get(), "gpu-1");
  good.Report();
  for (const char* const name : {"gpu", "cpu-1", "xgpu-1", "GPU-1"}) {
    ScriptedWorker bad(agents.get(), name);
    const absl::Status refused = FromGrpcStatus(bad.ReportToBeRefused());
    EXPECT_EQ(ReasonOf(refused), "WRONG_WORKER") << name << ": " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("token:gpus"));
  }
  good.Report();
}

TEST(TokenAccess, ARevokedTokensStreamsEndSoon_AndAllOthersLiveOn) {
  TokenServer server;
  const v1::Job job = server.admin().CreateJob(GoodSpec("watched"));
  const auto revoked = server.With(server.Create("revoked", v1::VIEWER));
  const auto kept = server.With(server.Create("kept", v1::VIEWER));
  const auto agents = server.With(server.Create("agents", v1::AGENT, "*"));
  OpenWatch first(revoked.get(), job.id()), second(revoked.get(), job.id()), third(kept.get(), job.id());
  OpenWatch on_socket(&server.admin(), job.id());
  ScriptedWorker worker(agents.get(), "w1");
  worker.Report();
  ASSERT_TRUE(server.Revoke("revoked").ok());
  v1::GetJobRequest get;
  get.set_id(job.id());
  v1::Job answer;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(revoked->jobs().GetJob(Context().get(), get, &answer))), "TOKEN_UNKNOWN");
  EXPECT_LT(first.AwaitEnd() + second.AwaitEnd(), absl::Seconds(5));
  EXPECT_EQ(ReasonOf(first.status()), "TOKEN_UNKNOWN") << first.status();
  EXPECT_TRUE(kept->jobs().GetJob(Context().get(), get, &answer).ok());
  worker.Report();
  ASSERT_TRUE(server.Revoke("agents").ok());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(worker.AwaitEnd())), "TOKEN_UNKNOWN");
  third.End();
  on_socket.End();
}

TEST(TokenAccess, AnExpiredTokensStreamsEndSoon) {
  TokenServer server;
  const v1::Job job = server.admin().CreateJob(GoodSpec("watched"));
  const auto brief = server.With(server.Create("brief", v1::VIEWER, "", absl::Seconds(2)));
  OpenWatch watch(brief.get(), job.id());
  EXPECT_LT(watch.AwaitEnd(), absl::Seconds(7));
  EXPECT_EQ(ReasonOf(watch.status()), "TOKEN_EXPIRED") << watch.status();
  v1::GetJobRequest get;
  get.set_id(job.id());
  v1::Job answer;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(brief->jobs().GetJob(Context().get(), get, &answer))), "TOKEN_EXPIRED");
}

TEST(TokenAccess, TheAuditLogTellsWhoChangedWhat_AndWhoWasRefused) {
  TokenServer server;
  const auto ci = server.With(server.Create("ci", v1::SUBMITTER));
  const v1::Job job = ci->CreateJob(GoodSpec("audited"));
  ci->GetJob(job.id());
  v1::CreateJobRequest dry_run;  // A dry run changes nothing, so it has no entry.
  *dry_run.mutable_spec() = GoodSpec("dry");
  dry_run.set_validate_only(true);
  v1::Job checked;
  ASSERT_TRUE(ci->jobs().CreateJob(Context().get(), dry_run, &checked).ok());
  EXPECT_FALSE(CallEmpty(*ci, "ampd.v1.WorkerAdminService/DrainWorker").ok());
  const auto auth = server.Auth();
  EXPECT_FALSE(WhoIs(*auth, {"Bearer ampd_planted_secret"}).ok());
  v1::ListAuditEntriesResponse response;
  ASSERT_TRUE(v1::AuthService::Stub(server.admin().NewChannel())
                  .ListAuditEntries(Context().get(), v1::ListAuditEntriesRequest(), &response)
                  .ok());
  std::vector<std::string> lines;
  for (const v1::AuditEntry& entry : response.entries()) {
    lines.push_back(absl::StrCat(entry.caller(), " ", entry.method().substr(entry.method().rfind('/') + 1), " ",
                                 entry.object(), " ", entry.code(), " ", entry.reason()));
    EXPECT_THAT(entry.DebugString(), testing::Not(HasSubstr("planted")));
  }
  const std::string admin = Grants({}).Of({.uid = getuid()}).name;
  EXPECT_THAT(lines, testing::ElementsAre(admin + " CreateToken ci OK ", "token:ci CreateJob audited OK ",
                                          "token:ci DrainWorker  PERMISSION_DENIED ROLE_TOO_LOW",
                                          " WhoAmI  UNAUTHENTICATED TOKEN_UNKNOWN"));
  EXPECT_EQ(response.entries(0).address(), "socket");
  EXPECT_THAT(response.entries(3).address(), HasSubstr("127.0.0.1"));
}

TEST(TokenAccess, AFloodOfRefusedCallsHasFewEntries) {
  TokenServer server;
  const auto auth = server.Auth();
  for (int i = 0; i < 2000; ++i) {
    EXPECT_FALSE(WhoIs(*auth, {"Bearer ampd_wrong"}).ok());
  }
  v1::ListAuditEntriesRequest request;
  request.set_limit(1000);
  v1::ListAuditEntriesResponse response;
  ASSERT_TRUE(
      v1::AuthService::Stub(server.admin().NewChannel()).ListAuditEntries(Context().get(), request, &response).ok());
  EXPECT_EQ(response.entries_size(), 1) << "calls that fail alike within a minute have one entry";
}

TEST(TokenAccess, TokensOutliveARestart) {
  TokenServer server;
  const std::string secret = server.Create("ci", v1::VIEWER);
  server.loopback().Restart();
  EXPECT_EQ(WhoIs(*server.Auth(), {"Bearer " + secret})->name(), "token:ci");
}

}  // namespace
}  // namespace ampd::server
