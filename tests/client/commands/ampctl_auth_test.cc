// Tests `ampctl auth`, and how ampctl finds the token that it sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/io/file.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AmpctlAuth : public Ampctl {
 protected:
  // Returns the value of the metadata `authorization` in a call that ampctl makes with these arguments and this
  // environment.
  std::string Sent(const std::string& arguments, const std::string& environment = "") {
    const Result result =
        Run(absl::StrCat("auth whoami ", arguments), absl::StrCat("AMPD_ADDRESS=", fake_.address(), " ", environment));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return fake_.auth.authorization();
  }
};

TEST_F(AmpctlAuth, Whoami_ShowsTheCallersNameRoleAndWorker) {
  EXPECT_EQ(Run("auth whoami").out, "token:gpus  agent in vision  (worker gpu-*)\n");
  EXPECT_THAT(Run("auth whoami -o json").out, AllOf(HasSubstr("\"roles\""), HasSubstr("\"AGENT\"")));
}

TEST_F(AmpctlAuth, TheTokenIsThatOfTheFlag_ThenOfTheContext_ThenOfTheEnvironment) {
  Write("flag.token", "ampd_flag\n");
  Write("context.token", "ampd_context\nanother line\n");
  EXPECT_EQ(Sent(""), "");
  EXPECT_EQ(Sent("--token-file flag.token"), "Bearer ampd_flag");
  EXPECT_EQ(Sent("", "AMPD_TOKEN=ampd_env"), "Bearer ampd_env");
  EXPECT_EQ(Sent("--token-file flag.token", "AMPD_TOKEN=ampd_env"), "Bearer ampd_flag");
  ASSERT_EQ(Run("context add lab " + fake_.address() + " --token-file context.token").exit_code, 0);
  EXPECT_EQ(Sent("--address lab"), "Bearer ampd_context");
  EXPECT_EQ(Sent("--address lab", "AMPD_TOKEN=ampd_env"), "Bearer ampd_context") << "the environment's is for others";
  EXPECT_EQ(Sent(""), "") << "an address without a context has no token";
  EXPECT_THAT(Run("context list -o json").out, HasSubstr(folder_ + "/context.token"));
}

TEST_F(AmpctlAuth, ATokenThatCannotBeReadOrSent_IsExplained) {
  const auto message = [this](const std::string& arguments, const std::string& environment = "") {
    const Result result = Run("auth whoami " + arguments, environment);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(message("--token-file none"), AllOf(HasSubstr("none"), HasSubstr("BAD_TOKEN_FILE")));
  EXPECT_THAT(message("--token-file ."), HasSubstr("BAD_TOKEN_FILE"));
  Write("empty", "\nampd_later\n");
  EXPECT_THAT(message("--token-file empty"), HasSubstr("first line is empty"));
  Write("words", "two words\n");
  EXPECT_THAT(message("--token-file words"),
              AllOf(HasSubstr("BAD_TOKEN"), HasSubstr("the token in words must"), Not(HasSubstr("two words"))));
  Write("good", "ampd_good\n");
  EXPECT_THAT(message("--token-file good --address 192.0.2.1:7070"),
              AllOf(HasSubstr("TOKEN_IN_THE_CLEAR"), Not(HasSubstr("ampd_good"))));
  EXPECT_THAT(message("", "AMPD_ADDRESS=192.0.2.1:7070 AMPD_TOKEN=ampd_env"), HasSubstr("TOKEN_IN_THE_CLEAR"));
  for (const char* const host : {"127.example.com", "127.0.0.1.example.com", "localhost.example.com", "1270.0.0.1"}) {
    EXPECT_THAT(message(absl::StrCat("--token-file good --address ", host, ":7070")), HasSubstr("TOKEN_IN_THE_CLEAR"));
  }
  EXPECT_THAT(message("--ca none.pem"), AllOf(HasSubstr("BAD_TLS_FILES"), HasSubstr("none.pem")));
  EXPECT_THAT(message("", "AMPD_CERT=only.pem"), HasSubstr("TLS needs --ca FILE too"));
  EXPECT_EQ(fake_.auth.authorization(), "");
}

TEST_F(AmpctlAuth, CreatePrintsTheSecretAlone_OrWritesItForTheUserOnly) {
  const Result printed = Run("auth token create ci --role submitter --expires 90d");
  EXPECT_EQ(printed.out, "ampd_secret\n");
  EXPECT_THAT(printed.err, HasSubstr("only time"));
  const v1::CreateTokenRequest request = fake_.auth.last_create();
  EXPECT_EQ(request.role(), v1::SUBMITTER);
  EXPECT_NEAR(static_cast<double>(request.expire_time().seconds() - absl::ToUnixSeconds(absl::Now())), 90 * 86400, 60);
  const Result written = Run("auth token create gpus --role agent --worker 'gpu-*' --out t");
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.out, "");
  EXPECT_EQ(*ReadFile(folder_ + "/t", 100), "ampd_secret\n");
  struct stat status = {};
  ASSERT_EQ(stat((folder_ + "/t").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_EQ(fake_.auth.last_create().worker(), "gpu-*");
  EXPECT_FALSE(fake_.auth.last_create().has_expire_time());
  EXPECT_EQ(Sent("--token-file t"), "Bearer ampd_secret");
  const Result json = Run("auth token create ci --role viewer -o json");
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"secret\": \"ampd_secret\""), HasSubstr("\"VIEWER\"")));
}

TEST_F(AmpctlAuth, AFileInTheWay_IsKeptAndNoTokenIsMade) {
  Write("t", "mine");
  const Result result = Run("auth token create ci --role viewer --out t");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(*ReadFile(folder_ + "/t", 100), "mine");
  EXPECT_EQ(fake_.auth.last_create().name(), "");
  Run("auth token create ci --role viewer --out none/t");
  EXPECT_EQ(fake_.auth.last_create().name(), "");
}

TEST_F(AmpctlAuth, AnUnknownRoleOrToken_IsExplained) {
  const Result role = Run("auth token create ci --role king");
  EXPECT_EQ(role.exit_code, 2);
  EXPECT_THAT(role.err, AllOf(HasSubstr("viewer"), HasSubstr("agent")));
  const Result token = Run("auth token revoke none");
  EXPECT_THAT(token.err, HasSubstr("list what there is: ampctl auth token list"));
  EXPECT_THAT(Run("auth token").err, HasSubstr("create"));
}

TEST_F(AmpctlAuth, ListShowsNoSecret) {
  EXPECT_THAT(Run("auth token list").err, HasSubstr("no tokens"));
  Run("auth token create gpus --role agent --worker 'gpu-*' --tenant vision");
  EXPECT_EQ(fake_.auth.last_create().tenant(), "vision");
  const Result list = Run("auth token list -o wide");
  EXPECT_THAT(list.out, AllOf(HasSubstr("gpus  agent  vision  gpu-*"), HasSubstr("never"), HasSubstr("user:root"),
                              Not(HasSubstr("ampd_"))));
}

TEST_F(AmpctlAuth, Login_TriesTheTokenFirstAndKeepsItForItsOwner) {
  const std::string kept = folder_ + "/config/ampd/lab.token";
  Write("typed", "  ampd_typed \n");
  const Result in = Run("login lab " + fake_.address() + " --tenant vision < typed");
  EXPECT_EQ(in.exit_code, 0) << in.err;
  EXPECT_THAT(in.err, AllOf(HasSubstr("logged in as token:gpus"), HasSubstr("commands now use context lab")));
  EXPECT_EQ(fake_.auth.authorization(), "Bearer ampd_typed");
  EXPECT_EQ(*ReadFile(kept, 100), "ampd_typed\n");
  struct stat status = {};
  ASSERT_EQ(stat(kept.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THAT(*ReadFile(folder_ + "/config/ampd/contexts", 1000),
              AllOf(HasSubstr("current lab\n"), HasSubstr(" tenant=vision"), HasSubstr("token-file=" + kept)));
  EXPECT_EQ(Run("auth whoami", "NO_ADDRESS=1").exit_code, 0);
  EXPECT_EQ(fake_.auth.authorization(), "Bearer ampd_typed");

  EXPECT_EQ(Run("login lab 127.0.0.1:1 < typed").exit_code, 5);
  EXPECT_EQ(*ReadFile(kept, 100), "ampd_typed\n") << "a login that failed changes nothing";
  EXPECT_NE(stat((kept + ".new").c_str(), &status), 0);
  EXPECT_THAT(Run("login lab " + fake_.address() + " < /dev/null").err, HasSubstr("no token was given"));
}

TEST_F(AmpctlAuth, Login_ToAServerThatIsDown_SaysSoAndSavesNothing) {
  Write("typed", "ampd_typed\n");
  const Result down = Run("login lab 127.0.0.1:1 < typed", "AMPD_NONE=1");
  EXPECT_EQ(down.exit_code, 5);
  EXPECT_EQ(down.err,
            "error: cannot reach the server at 127.0.0.1:1: Connection refused; check ADDRESS. Nothing was saved\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/config/ampd/contexts"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/config/ampd/lab.token"));
  for (const std::string command : {"login", "context add"}) {
    EXPECT_EQ(Run(command + " 127.0.0.1:7070").err,
              absl::StrCat("error: ampctl ", command, " needs NAME and ADDRESS; did you mean: ampctl ", command,
                           " prod 127.0.0.1:7070\n  try: ampctl ", command, " --help\n"));
    EXPECT_EQ(Run(command + " ampd.example.com").err,
              absl::StrCat("error: ampctl ", command, " needs NAME and ADDRESS; did you mean: ampctl ", command,
                           " prod ampd.example.com:PORT\n  try: ampctl ", command, " --help\n"));
  }
}

TEST_F(AmpctlAuth, AContextWithANewTenant_KeepsTheTokenOfItsLogin) {
  const std::string kept = folder_ + "/config/ampd/lab.token";
  Write("typed", "ampd_typed\n");
  ASSERT_EQ(Run("login lab " + fake_.address() + " < typed").exit_code, 0);
  const Result changed = Run("context add lab " + fake_.address() + " --tenant vision");
  EXPECT_EQ(changed.exit_code, 0);
  EXPECT_THAT(changed.err, AllOf(HasSubstr("tenant=vision"), HasSubstr("token-file=" + kept)));
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST_F(AmpctlAuth, ARemovedContext_LosesTheTokenOfItsLogin) {
  const std::string kept = folder_ + "/config/ampd/lab.token";
  const std::string login = "login lab " + fake_.address() + " < typed";
  Write("typed", "ampd_typed\n");
  ASSERT_EQ(Run(login).exit_code, 0);
  EXPECT_THAT(Run("context remove lab").err, HasSubstr("\ndeleted the token in " + kept + "\n"));
  EXPECT_FALSE(std::filesystem::exists(kept));

  ASSERT_EQ(Run(login).exit_code, 0);
  EXPECT_THAT(Run("context add lab 127.0.0.1:1").err, HasSubstr("deleted the token in " + kept));
  EXPECT_FALSE(std::filesystem::exists(kept)) << "the context has no token any more";

  ASSERT_EQ(Run(login).exit_code, 0);
  ASSERT_EQ(Run("context add other 127.0.0.1:1 --token-file " + kept).exit_code, 0);
  EXPECT_THAT(Run("context remove lab").err, Not(HasSubstr("deleted")));
  EXPECT_TRUE(std::filesystem::exists(kept)) << "another context uses it";

  Write("own.token", "ampd_own\n");
  ASSERT_EQ(Run("context add mine 127.0.0.1:1 --token-file own.token").exit_code, 0);
  ASSERT_EQ(Run("context remove mine").exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/own.token")) << "login did not write it";
}

TEST_F(AmpctlAuth, ATenantThatIsNoName_IsRefusedBeforeItGetsIntoAFilter) {
  const std::string why =
      " is not the name of a tenant: 1 to 63 lower-case letters, digits and hyphens, beginning with a "
      "letter";
  for (const std::string tenant : {"nosuch OR name=tiny", "nos*", "a b", "Vision"}) {
    const Result flag = Run(absl::StrCat("--tenant '", tenant, "' job list"));
    EXPECT_EQ(flag.exit_code, 2) << tenant;
    EXPECT_THAT(flag.err, HasSubstr(absl::StrCat("error: --tenant: \"", tenant, "\"", why)));
    const Result variable =
        Run("job list", absl::StrCat("AMPD_ADDRESS=", fake_.address(), " AMPD_TENANT='", tenant, "'"));
    EXPECT_EQ(variable.exit_code, 2) << tenant;
    EXPECT_EQ(variable.err, absl::StrCat("error: AMPD_TENANT: \"", tenant, "\"", why, "\n"));
  }
  std::filesystem::create_directories(folder_ + "/config/ampd");
  Write("config/ampd/contexts", absl::StrCat("lab ", fake_.address(), " tenant=nos*\n"));
  EXPECT_EQ(Run("job list --address lab").err,
            absl::StrCat("error: tenant in the file of contexts: \"nos*\"", why, "\n"));
  EXPECT_TRUE(fake_.jobs.script()->list_requests.empty());
  EXPECT_EQ(Run("--tenant '*' job list").exit_code, 0);
  Write("job.yaml", kGoodJob);
  EXPECT_THAT(Run("--tenant '*' job submit -f job.yaml").err,
              HasSubstr("error: the tenant '*' stands for all tenants; a job belongs to one: --tenant NAME"));
  EXPECT_EQ(fake_.jobs.script()->list_requests.back().filter(), "");
}

TEST_F(AmpctlAuth, AJobsName_IsLookedForInTheTenantThatIsNamed) {
  fake_.jobs.Add("tiny", v1::Job::RUNNING);
  EXPECT_EQ(Run("job show tiny").exit_code, 0);
  const Result other = Run("--tenant vision job show tiny");
  EXPECT_EQ(other.exit_code, 3) << "the job belongs to no such tenant\n" << other.err;
  EXPECT_EQ(fake_.jobs.script()->list_requests.front().filter(), "tenant=vision AND (name=tiny)");
  fake_.jobs.script()->list_requests.clear();
  Run("--tenant vision job show j-aaa");
  EXPECT_EQ(fake_.jobs.script()->list_requests.front().filter(), "tenant=vision AND (name=j-aaa OR id=j-aaa*)");
  fake_.jobs.script()->list_requests.clear();
  EXPECT_EQ(Run("--tenant vision job show 'x OR id=*'").exit_code, 3);
  for (const v1::ListJobsRequest& request : fake_.jobs.script()->list_requests) {
    EXPECT_EQ(request.filter(), "tenant=vision");
  }
}

TEST_F(AmpctlAuth, VariablesThatAreNotUsed_AreNoted) {
  std::filesystem::create_directories(folder_ + "/.ampd");
  Write(".ampd/context", fake_.address() + "\n");
  const Result project = Run("job list", "AMPD_TOKEN=ampd_env AMPD_TENANT=vision");
  EXPECT_EQ(project.exit_code, 0) << project.err;
  EXPECT_THAT(project.err, HasSubstr("note: not used here: AMPD_TOKEN, AMPD_TENANT; the server's address comes from "
                                     ".ampd/context, and they may be for another server. To use them: --address " +
                                     fake_.address() + "\n"));
  EXPECT_EQ(fake_.auth.authorization(), "");
  EXPECT_THAT(Run("job list -q", "AMPD_TOKEN=ampd_env").err, Not(HasSubstr("AMPD_TOKEN")));
  EXPECT_THAT(Run("job list").err, Not(HasSubstr("not used")));
  Write("context.token", "ampd_context\n");
  ASSERT_EQ(Run("context add lab " + fake_.address() + " --token-file context.token").exit_code, 0);
  EXPECT_THAT(Run("job list --address lab", "AMPD_TOKEN=ampd_env").err,
              HasSubstr("note: AMPD_TOKEN is not used: the token comes from the file " + folder_ + "/context.token"));
}

TEST_F(AmpctlAuth, WithoutANameForTheCaller_WhoamiSaysSo) {
  fake_.auth.KnowNobody();
  EXPECT_EQ(Run("auth whoami").out,
            "you sent no token and no certificate; without them this server gives you: admin\n");
  for (const char* command : {"auth whoami -q", "auth whoami -o name"}) {
    const Result result = Run(command);
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("you have no name on this server"));
  }
}

TEST_F(AmpctlAuth, QuietAudit_PrintsTheTableWithoutHints) {
  const Result quiet = Run("audit -q");
  EXPECT_EQ(quiet.out, Run("audit").out);
  EXPECT_THAT(quiet.out, HasSubstr("token:ci"));
}

TEST_F(AmpctlAuth, AuditShowsWhoDidWhatWithWhichResult) {
  const Result table = Run("audit --limit 7 --since 1h --caller 'token:*' -o wide");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("token:ci  CancelJob  j-aaaa  NOT_YOUR_JOB  (3 earlier failed calls were not logged)"),
                    HasSubstr("10.0.0.7")));
  const v1::ListAuditEntriesRequest request = fake_.auth.last_audit();
  EXPECT_EQ(request.limit(), 7);
  EXPECT_EQ(request.caller(), "token:*");
  EXPECT_NEAR(static_cast<double>(request.since().seconds()),
              static_cast<double>(absl::ToUnixSeconds(absl::Now())) - 3600, 60);
  EXPECT_EQ(Run("audit --limit 1001").exit_code, 2);
  EXPECT_THAT(Run("audit --caller nobody").err, HasSubstr("did you mean: --caller '*:nobody'\n"));
}

}  // namespace
}  // namespace ampd::client
