#include "server/server_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
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
  EXPECT_EQ(parsed.config.grants.Of({.uid = 4'000'000'001}).role_names(), std::set<Role>{Role::kSubmitter});
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

ParsedConfig ParseWords(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.begin(), {"--data-dir", "d"});
  words.insert(words.end(), more.begin(), more.end());
  std::vector<const char*> flags;
  for (const std::string& word : words) {
    flags.push_back(word.c_str());
  }
  return Parse(flags);
}

TEST(ServerConfig, TlsOpensEveryAddress_WithAllItsFiles) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const TlsFiles tls = files.IssueTo("server", authority, "ca.pem", {"node1"});
  const std::vector<std::string> all = {"--tls-cert", tls.certificate, "--tls-key", tls.key, "--tls-client-ca", tls.ca};
  const ParsedConfig good = ParseWords({"--listen", "0.0.0.0:7070"}, all);
  ASSERT_TRUE(good.run) << good.output;
  EXPECT_EQ(good.config.listen->host, "0.0.0.0");
  EXPECT_EQ(good.config.tls.ca, tls.ca);
  EXPECT_THAT(ParseWords({}, all).output, HasSubstr("--listen HOST:PORT"));
  EXPECT_THAT(ParseWords({"--listen", "127.0.0.1:0", "--allow-unauthenticated-loopback"}, all).output,
              HasSubstr("leave out --allow-unauthenticated-loopback"));
  for (size_t missing = 0; missing < all.size(); missing += 2) {
    std::vector<std::string> some = all;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(missing),
               some.begin() + static_cast<std::ptrdiff_t>(missing) + 2);
    const ParsedConfig parsed = ParseWords({"--listen", "0.0.0.0:7070"}, some);
    EXPECT_FALSE(parsed.run);
    EXPECT_THAT(parsed.output, HasSubstr(absl::StrCat("TLS needs ", all[missing], " FILE too"))) << all[missing];
  }
}

TEST(ServerConfig, TlsOfTheMetricsHasFilesOfItsOwn_AndNeedsNoCa) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const TlsFiles tls = files.IssueTo("server", authority, "ca.pem", {"node1"});
  const std::vector<std::string> listen = {"--metrics-listen", "0.0.0.0:9100"};
  const ParsedConfig good = ParseWords(listen, {"--metrics-tls-cert", tls.certificate, "--metrics-tls-key", tls.key});
  ASSERT_TRUE(good.run) << good.output;
  EXPECT_EQ(good.config.metrics_listen.ToString(), "0.0.0.0:9100");
  EXPECT_EQ(good.config.metrics_tls.ca, "");
  EXPECT_TRUE(good.config.tls.empty());
  EXPECT_EQ(ParseWords(listen, {"--metrics-tls-cert", tls.certificate, "--metrics-tls-key", tls.key,
                                "--metrics-tls-client-ca", tls.ca})
                .config.metrics_tls.ca,
            tls.ca);
  for (const auto& [some, missing] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--metrics-tls-cert", tls.certificate}, "--metrics-tls-key"},
           {{"--metrics-tls-key", tls.key}, "--metrics-tls-cert"},
           {{"--metrics-tls-client-ca", tls.ca}, "--metrics-tls-cert"}}) {
    const ParsedConfig parsed = ParseWords(listen, some);
    EXPECT_FALSE(parsed.run);
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_THAT(parsed.output, HasSubstr(absl::StrCat("TLS needs ", missing, " FILE too")));
  }
  EXPECT_THAT(ParseWords(listen, {"--metrics-tls-cert", tls.certificate, "--metrics-tls-key", tls.key,
                                  "--metrics-tls-client-ca", files.Path("none.pem")})
                  .output,
              HasSubstr("none.pem"));
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
  const ParsedConfig metrics = Parse({"--data-dir", "d", "--metrics-listen", "0.0.0.0:1"});
  EXPECT_EQ(metrics.exit_code, kExitUsage);
  EXPECT_THAT(metrics.output, HasSubstr("give --metrics-tls-cert and --metrics-tls-key"));
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
  EXPECT_EQ(Parse({"--dta-dir", "d"}).output,
            "ampd-server: there is no flag --dta-dir; did you mean --data-dir?; see ampd-server --help");
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

TEST(ServerConfig, TakesAnIdentityProvider) {
  ParsedConfig parsed =
      Parse({"--data-dir", "d", "--oidc-issuer", "https://login.test", "--oidc-audience", "ampd", "--oidc-keys",
             "https://login.test/jwks", "--oidc-role", "groups:a=viewer", "--oidc-role", "groups:b=operator@vision",
             "--oidc-tenant-claim", "team", "--oidc-name-claim", "email"});
  ASSERT_TRUE(parsed.run) << parsed.output;
  EXPECT_EQ(parsed.config.oidc.issuer, "https://login.test");
  EXPECT_EQ(parsed.config.oidc.audience, "ampd");
  EXPECT_EQ(parsed.config.oidc.keys, "https://login.test/jwks");
  EXPECT_TRUE(parsed.config.oidc.claims.has_roles());
  EXPECT_TRUE(Parse({"--data-dir", "d"}).config.oidc.empty());
}

TEST(ServerConfig, AnIdentityProviderNeedsAllThatMakesItSafe) {
  for (const auto& [flags, word] : std::vector<std::pair<std::vector<const char*>, std::string>>{
           {{"--oidc-issuer", "https://login.test"}, "--oidc-audience"},
           {{"--oidc-issuer", "https://login.test", "--oidc-audience", "ampd"}, "--oidc-role"},
           {{"--oidc-issuer", "http://login.test", "--oidc-audience", "ampd", "--oidc-role", "g:x=viewer"}, "https://"},
           {{"--oidc-audience", "ampd"}, "--oidc-issuer"},
           {{"--oidc-role", "g:x=viewer"}, "--oidc-issuer"},
           {{"--oidc-tenant-claim", "team"}, "--oidc-issuer"},
           {{"--oidc-issuer", "https://login.test", "--oidc-role", "g:x=boss"}, "no role 'boss'"},
           {{"--oidc-issuer", "https://login.test", "--oidc-audience", "ampd", "--oidc-role", "g:x=viewer",
             "--oidc-keys", "/nowhere/jwks"},
            "/nowhere/jwks"}}) {
    std::vector<const char*> all = {"--data-dir", "d"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ParsedConfig parsed = Parse(all);
    EXPECT_EQ(parsed.exit_code, kExitUsage) << word;
    EXPECT_THAT(parsed.output, HasSubstr(word));
  }
}

// Returns as text the settings that decide how the server behaves.
std::string Described(const ServerConfig& config) {
  std::string text = absl::StrCat(
      config.data_dir, " ", config.socket, " ", config.proxy_socket, " ", config.port_file, " ",
      config.listen.value_or(ListenAddress()).ToString(), " ", config.metrics_listen.ToString(), " ",
      config.trusts_loopback, " ", config.metrics_max_jobs, " ", config.min_free_bytes, " ", config.reserve_bytes, " ",
      config.memory_limit_bytes.value_or(-1), " ", config.artifact_quota_bytes, " ", config.log_level, " ",
      config.log_format, " ", config.oidc.issuer, " ", config.oidc.audience, " ", config.oidc.keys, " ", config.oidc.ca,
      " ", config.limits.OfTenant("a").jobs.value_or(0), " ", config.limits.of_caller().requests.value_or(0), " ",
      config.grants.RolesOf({.uid = 4'000'000'001}).size(), config.grants.RolesOf({.uid = 4'000'000'002}).size());
  for (const TlsFiles& files : {config.tls, config.metrics_tls}) {
    absl::StrAppend(&text, " ", files.ca, " ", files.certificate, " ", files.key);
  }
  for (const absl::Duration duration :
       {config.lease, config.lease_margin, config.suspend_limit, config.local_checkpoint_wait, config.archive_after,
        config.retention, config.checkpoint_retention, config.worker_retention, config.metrics_linger,
        config.drain_grace, config.artifact_retention}) {
    absl::StrAppend(&text, " ", absl::FormatDuration(duration));
  }
  return text;
}

// Valid command lines that together use all flags.
std::vector<std::vector<std::string>> AllFlags(const CertificateFiles& files) {
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const TlsFiles tls = files.IssueTo("server", authority, "ca.pem", {"node1"});
  return {{"--data-dir", files.Path("data"), "--allow-unauthenticated-loopback=true", "--listen", "[::1]:0"},
          {"--data-dir", files.Path("data"), "--allow-unauthenticated-loopback=false", "--listen", "[::1]:0"},
          {"--data-dir", files.Path("data"), "--listen", "0.0.0.0:0", "--tls-cert", tls.certificate, "--tls-key",
           tls.key, "--tls-client-ca", tls.ca, "--metrics-listen", "0.0.0.0:0", "--metrics-tls-cert", tls.certificate,
           "--metrics-tls-key", tls.key, "--metrics-tls-client-ca", tls.ca},
          {"--data-dir", files.Path("data"), "--proxy-socket", "/run/p/ampd.sock", "--tls-client-ca", tls.ca},
          {"--data-dir", files.Path("data"), "--oidc-issuer", "https://login.test", "--oidc-audience", "ampd",
           "--oidc-keys", "https://login.test/jwks", "--oidc-ca", tls.ca, "--oidc-role", "groups:a=viewer",
           "--oidc-role", "groups:*=operator@vision", "--oidc-tenant-claim", "team", "--oidc-name-claim", "email"},
          {"--data-dir",
           files.Path("data"),
           "--socket",
           "/run/ampd/ampd.sock",
           "--port-file",
           files.Path("ports"),
           "--grant",
           "uid:4000000001=submitter",
           "--grant",
           "uid:4000000002=viewer",
           "--tenant-limit",
           "*:jobs=5",
           "--tenant-limit",
           "a:spec-bytes=1MB",
           "--caller-limit",
           "requests=7",
           "--lease",
           "2s",
           "--margin",
           "500ms",
           "--suspend-limit",
           "1h30m",
           "--local-checkpoint-wait",
           "1m",
           "--archive-after",
           "0",
           "--retention",
           "1d12h",
           "--checkpoint-retention",
           "90m",
           "--worker-retention",
           "5d",
           "--metrics-linger",
           "0s",
           "--metrics-max-jobs",
           "7",
           "--drain-grace",
           "1s",
           "--min-free-space",
           "2GiB",
           "--reserve-space",
           "4096",
           "--memory-limit",
           "0",
           "--artifact-quota-bytes",
           "2GB",
           "--artifact-retention",
           "48h",
           "--log-level",
           "debug",
           "--log-format",
           "json"}};
}

ParsedConfig ParseAll(const std::vector<std::string>& words) {
  std::vector<const char*> flags;
  for (const std::string& word : words) {
    flags.push_back(word.c_str());
  }
  return Parse(flags);
}

TEST(ServerConfig, EveryFlagIsPrintedSoThatItIsReadBack) {
  const CertificateFiles files;
  std::set<std::string> covered;
  std::set<std::string> all;
  for (const std::vector<std::string>& flags : AllFlags(files)) {
    const ParsedConfig before = ParseAll(flags);
    ASSERT_TRUE(before.run) << before.output;
    std::vector<std::string> asks = flags;
    asks.emplace_back("--print-config");
    const ParsedConfig printed = ParseAll(asks);
    EXPECT_FALSE(printed.run);
    ASSERT_EQ(printed.exit_code, kExitOk) << printed.output;
    files.Write("server.yaml", printed.output);
    const ParsedConfig after = ParseAll({"--config", files.Path("server.yaml")});
    ASSERT_TRUE(after.run) << after.output << "\n" << printed.output;
    EXPECT_EQ(after.settings, before.settings) << printed.output;
    EXPECT_EQ(Described(after.config), Described(before.config));
    EXPECT_EQ(ParseAll({"--config", files.Path("server.yaml"), "--print-config"}).output, printed.output);
    for (const Setting& setting : before.settings) {
      all.insert(setting.key);
      if (setting.is_set) {
        covered.insert(setting.key);
      }
    }
  }
  EXPECT_EQ(covered, all) << "AllFlags lacks a flag";
}

TEST(ServerConfig, AFileWithAMistakeIsAUsageError_WithTheLine) {
  const CertificateFiles files;
  files.Write("server.yaml", "data-dir: data\nlisten: 127.0.0.1:0\nleese: 10s\n");
  const std::string path = files.Path("server.yaml");
  const ParsedConfig unknown = ParseAll({"--config", path});
  EXPECT_EQ(unknown.exit_code, kExitUsage);
  EXPECT_EQ(unknown.output,
            absl::StrCat("ampd-server: ", path, ":3:1: there is no key 'leese'; did you mean 'lease'?"));
  files.Write("server.yaml", "data-dir: data\ngrant:\n  - uid:7=viewer\n  - uid:7=king\n");
  EXPECT_THAT(ParseAll({"--config", path}).output, HasSubstr(absl::StrCat(path, ":4:5: grant: 'uid:7=king'")));
  files.Write("server.yaml", "data-dir: data\nlisten: 0.0.0.0:7070\n");
  EXPECT_THAT(ParseAll({"--config", path}).output, HasSubstr(absl::StrCat(" (--config ", path, ")")));
  files.Write("server.yaml", "oidc-audience: x\ndata-dir: data\n");
  EXPECT_THAT(ParseAll({"--config", path}).output, HasSubstr(":1:1: oidc-audience: needs oidc-issuer too"));
}

TEST(ServerConfig, TheSocketIsInTheDataDirectoryOfTheFile) {
  const CertificateFiles files;
  files.Write("server.yaml", "data-dir: data\n");
  EXPECT_EQ(ParseAll({"--config", files.Path("server.yaml")}).config.socket, files.Path("data/ampd.sock"));
}

}  // namespace
}  // namespace ampd::server
