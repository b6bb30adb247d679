#include "server/server_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/base/tls/certificate_files.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;
using testing::Not;

ParsedConfig Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "ampd-server");
  return ParseServerConfig(static_cast<int>(flags.size()), flags.data());
}

TEST(ServerConfig, TakesEveryFlag) {
  ParsedConfig parsed = Parse({"--listen",
                               "[::1]:0",
                               "--allow-unauthenticated-loopback",
                               "--socket",
                               "/run/ampd/ampd.sock",
                               "--grant",
                               "uid:4000000001=submitter",
                               "--metrics-listen",
                               "localhost:9100",
                               "--data-dir",
                               "d",
                               "--lease",
                               "2s",
                               "--margin",
                               "500ms",
                               "--suspend-limit",
                               "1h30m",
                               "--metrics-linger",
                               "0s",
                               "--metrics-max-jobs",
                               "7",
                               "--retention",
                               "1d12h",
                               "--archive-after",
                               "0",
                               "--checkpoint-retention",
                               "90m",
                               "--min-free-space",
                               "2GiB",
                               "--reserve-space",
                               "4096",
                               "--artifact-quota-bytes",
                               "2GB",
                               "--artifact-retention",
                               "48h",
                               "--port-file",
                               "p"});
  ASSERT_TRUE(parsed.run) << parsed.output;
  EXPECT_EQ(parsed.config.listen.value().ToString(), "[::1]:0");
  EXPECT_EQ(parsed.config.socket, "/run/ampd/ampd.sock");
  EXPECT_EQ(parsed.config.grants.Of({.uid = 4'000'000'001}).roles, std::set<Role>{Role::kSubmitter});
  EXPECT_EQ(parsed.config.metrics_listen.ToString(), "127.0.0.1:9100");
  EXPECT_EQ(parsed.config.lease, absl::Seconds(2));
  EXPECT_EQ(parsed.config.lease_margin, absl::Milliseconds(500));
  EXPECT_EQ(parsed.config.suspend_limit, absl::Minutes(90));
  EXPECT_EQ(parsed.config.metrics_linger, absl::ZeroDuration());
  EXPECT_EQ(parsed.config.metrics_max_jobs, 7);
  EXPECT_EQ(parsed.config.retention, absl::Hours(36));
  EXPECT_EQ(parsed.config.archive_after, absl::ZeroDuration());
  EXPECT_EQ(parsed.config.checkpoint_retention, absl::Minutes(90));
  EXPECT_EQ(parsed.config.min_free_bytes, int64_t{2} << 30);
  EXPECT_EQ(parsed.config.reserve_bytes, 4096);
  EXPECT_EQ(parsed.config.artifact_quota_bytes, 2'000'000'000);
  EXPECT_EQ(parsed.config.artifact_retention, absl::Hours(48));
}

TEST(ServerConfig, ByDefaultListensOnASocketInItsDataDirectoryOnly) {
  const ParsedConfig parsed = Parse({"--data-dir", "d"});
  ASSERT_TRUE(parsed.run) << parsed.output;
  EXPECT_EQ(parsed.config.socket, "d/ampd.sock");
  EXPECT_EQ(parsed.config.listen, std::nullopt);
}

TEST(ServerConfig, CallsOverLoopbackNeedATokenUnlessTheFlagSaysOtherwise) {
  EXPECT_FALSE(Parse({"--data-dir", "d", "--listen", "127.0.0.1:0"}).config.trusts_loopback);
  const ParsedConfig open = Parse({"--data-dir", "d", "--listen", "127.0.0.1:0", "--allow-unauthenticated-loopback"});
  EXPECT_TRUE(open.config.trusts_loopback) << open.output;
}

TEST(ServerConfig, TlsOpensEveryAddress_WithAllItsFiles) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const TlsFiles tls = files.IssueTo("server", authority, "ca.pem", {"node1"});
  const std::vector<std::string> all = {"--tls-cert", tls.certificate, "--tls-key", tls.key, "--tls-client-ca", tls.ca};
  const auto parse = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.begin(), {"--data-dir", "d"});
    words.insert(words.end(), more.begin(), more.end());
    std::vector<const char*> flags;
    for (const std::string& word : words) {
      flags.push_back(word.c_str());
    }
    return Parse(flags);
  };
  const ParsedConfig good = parse({"--listen", "0.0.0.0:7070"}, all);
  ASSERT_TRUE(good.run) << good.output;
  EXPECT_EQ(good.config.listen->host, "0.0.0.0");
  EXPECT_EQ(good.config.tls.ca, tls.ca);
  EXPECT_THAT(parse({}, all).output, HasSubstr("--listen HOST:PORT"));
  EXPECT_THAT(parse({"--listen", "127.0.0.1:0", "--allow-unauthenticated-loopback"}, all).output,
              HasSubstr("leave out --allow-unauthenticated-loopback"));
  for (size_t missing = 0; missing < all.size(); missing += 2) {
    std::vector<std::string> some = all;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(missing),
               some.begin() + static_cast<std::ptrdiff_t>(missing) + 2);
    const ParsedConfig parsed = parse({"--listen", "0.0.0.0:7070"}, some);
    EXPECT_FALSE(parsed.run);
    EXPECT_THAT(parsed.output, HasSubstr(absl::StrCat("TLS needs ", all[missing], " FILE too"))) << all[missing];
  }
}

TEST(ServerConfig, RefusesAddressesBeyondLoopbackAndSaysWhy) {
  for (const char* address : {"0.0.0.0:7070", "10.0.0.1:7070", "[::]:7070", "128.0.0.1:1"}) {
    ParsedConfig parsed = Parse({"--data-dir", "d", "--listen", address});
    EXPECT_FALSE(parsed.run) << address;
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_THAT(parsed.output, HasSubstr("give --tls-cert, --tls-key and --tls-client-ca"));
    EXPECT_THAT(parsed.output, HasSubstr(address));
    EXPECT_THAT(parsed.output, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(Parse({"--data-dir", "d", "--metrics-listen", "0.0.0.0:1"}).exit_code, kExitUsage);
}

TEST(ServerConfig, BadFlagsAreOneLineAndUsage) {
  for (const std::vector<const char*>& flags :
       std::vector<std::vector<const char*>>{{},
                                             {"--data-dir", "d", "--nonsense"},
                                             {"--data-dir", "d", "--lease", "soon"},
                                             {"--data-dir", "d", "--lease", "0s"},
                                             {"--data-dir", "d", "--listen", "127.0.0.1"},
                                             {"--data-dir", "d", "--listen", "127.0.0.1:99999"},
                                             {"--data-dir", "d", "--grant", "alice=viewer"},
                                             {"--data-dir", "d", "--grant", "user:=viewer"},
                                             {"--data-dir", "d", "--grant", "uid:7=king"},
                                             {"--data-dir", "d", "--grant", "uid:-7=viewer"},
                                             {"--data-dir", "d", "--grant", "user:nobody-of-this-name=viewer"},
                                             {"--data-dir", "d", "--grant", "group:nobody-of-this-name=viewer"},
                                             {"--data-dir", "d", "--metrics-max-jobs", "-1"},
                                             {"--data-dir", "d", "--min-free-space", "much"},
                                             {"--data-dir", "d", "--retention", "-1s"},
                                             {"--data-dir", "d", "--retention", "inf"},
                                             {"--data-dir", "d", "--artifact-retention", "1000000h"},
                                             {"--data-dir", "d", "--min-free-space", "-1"}}) {
    ParsedConfig parsed = Parse(flags);
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_FALSE(parsed.output.empty());
    EXPECT_THAT(parsed.output, Not(HasSubstr("\n")));
  }
}

TEST(ServerConfig, ASizeOrDurationThatIsNone_IsNamedWithAnExample) {
  EXPECT_EQ(Parse({"--data-dir", "d", "--min-free-space", "4G"}).output,
            "ampd-server: --min-free-space: '4G' is not a number of bytes such as 4096, 500MB or 4GiB; did you mean "
            "'4GB'?; see ampd-server --help");
  EXPECT_EQ(Parse({"--data-dir", "d", "--retention", "30 days"}).output,
            "ampd-server: --retention: '30 days' is not a duration such as 90s, 1h30m or 1d12h; did you mean '30d'?; "
            "see ampd-server --help");
  EXPECT_EQ(Parse({"--data-dir", "d", "--lease", "1ms"}).output,
            "ampd-server: --lease: '1ms' is less than 100ms; see ampd-server --help");
}

TEST(ServerConfig, AMisspeltFlagIsNamedAndNotTheOneThatIsMissingForIt) {
  EXPECT_EQ(Parse({"--dta-dir", "d"}).output, "ampd-server: there is no flag --dta-dir; see ampd-server --help");
  EXPECT_EQ(Parse({"--lease", "1s"}).output, "ampd-server: --data-dir is required; see ampd-server --help");
}

TEST(ServerConfig, HelpAndVersionAreNoFailure) {
  const std::string help = Parse({"--help"}).output;
  EXPECT_THAT(help, HasSubstr("--min-free-space SIZE=256MiB\n"));
  EXPECT_THAT(help, HasSubstr("--metrics-max-jobs N=200"));
  EXPECT_THAT(help, Not(HasSubstr("INT"))) << "checks are no help";
  for (const char* flag : {"--archive-after", "--retention", "--checkpoint-retention", "--artifact-retention"}) {
    const std::string text = help.substr(help.find(absl::StrCat(flag, " DURATION")));
    EXPECT_THAT(text.substr(0, text.find("  --", 2)), HasSubstr("(0 = for ever)")) << flag;
  }
  EXPECT_EQ(Parse({"--help"}).exit_code, kExitOk);
  EXPECT_THAT(Parse({"--help"}).output, HasSubstr("--listen"));
  EXPECT_THAT(Parse({"--version"}).output, HasSubstr("ampd-server"));
}

}  // namespace
}  // namespace ampd::server
