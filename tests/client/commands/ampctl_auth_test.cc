// ampctl auth, and how ampctl finds the token that it sends.
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
  // Returns the authorization that a call with these arguments and this environment carries.
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
  EXPECT_THAT(message("--token-file words"), AllOf(HasSubstr("BAD_TOKEN"), Not(HasSubstr("two words"))));
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

TEST_F(AmpctlAuth, AuditShowsWhoDidWhatWithWhichResult) {
  const Result table = Run("audit --limit 7 --since 1h --caller 'token:*' -o wide");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("token:ci  CancelJob  j-aaaa  NOT_YOUR_JOB  (and 3 before, left out)"),
                               HasSubstr("10.0.0.7")));
  const v1::ListAuditEntriesRequest request = fake_.auth.last_audit();
  EXPECT_EQ(request.limit(), 7);
  EXPECT_EQ(request.caller(), "token:*");
  EXPECT_NEAR(static_cast<double>(request.since().seconds()),
              static_cast<double>(absl::ToUnixSeconds(absl::Now())) - 3600, 60);
  EXPECT_EQ(Run("audit --limit 1001").exit_code, 2);
}

}  // namespace
}  // namespace ampd::client
