// Tests access to the pages of a real server's HTTP listener, with and without TLS: who may read which page, and what
// the page then shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/error.h"
#include "base/http/router.h"
#include "server/access/rules.h"
#include "server/http/http_guard.h"
#include "server/http/server_routes.h"
#include "tests/base/http/raw_connection.h"
#include "tests/base/http/tls_connection.h"
#include "tests/base/tls/certificate_files.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kOk[] = "HTTP/1.1 200 ";
constexpr char kUnknown[] = "HTTP/1.1 401 ";
constexpr char kForbidden[] = "HTTP/1.1 403 ";

// Returns an HTTP request with these headers, which are given as lines without line ends.
std::string Request(const std::string& path, const std::vector<std::string>& headers = {}) {
  std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
  for (const std::string& header : headers) {
    absl::StrAppend(&request, header, "\r\n");
  }
  return request + "\r\n";
}

std::string Bearer(const std::string& secret) { return "Authorization: Bearer " + secret; }

// A server that requires a token for calls over TCP. The user of this test is admin on its Unix socket.
class ScrapedServer {
 public:
  // `with_tls`: whether the HTTP listener has TLS; clients may then have certificates. `caller_limit`: value of
  // --caller-limit.
  explicit ScrapedServer(bool with_tls, bool trusts_loopback = false, const std::string& caller_limit = "")
      : with_tls_(with_tls) {
    files_.Write("ca.pem", authority_.certificate);
    const TlsFiles tls = files_.IssueTo("server", authority_, "ca.pem", {"127.0.0.1"});
    server_ = std::make_unique<TestServer>([=](ServerConfig* config) {
      config->trusts_loopback = trusts_loopback;
      config->metrics_tls = with_tls ? tls : TlsFiles();
      EXPECT_TRUE(caller_limit.empty() || config->limits.AddForCallers(caller_limit).ok());
      for (const char* const grant : {"cert:prometheus=scraper", "cert:heron-*=scraper@heron", "cert:viewer=viewer"}) {
        EXPECT_TRUE(config->grants.Add(grant).ok());
      }
    });
    admin_.Connect("unix:" + server_->socket());
  }

  std::string Token(const std::string& name, v1::Role role, const std::string& tenant = "") {
    v1::CreateTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    request.set_tenant(tenant);
    request.set_worker(role == v1::AGENT ? "*" : "");
    v1::CreateTokenResponse response;
    const grpc::Status status =
        v1::AuthService::Stub(admin_.NewChannel()).CreateToken(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  void Submit(const std::string& tenant, const std::string& name) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = GoodSpec(name);
    request.set_tenant(tenant);
    v1::Job job;
    const grpc::Status status = admin_.jobs().CreateJob(Context().get(), request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // Returns the whole answer to a request. `certificate`: common name of the client's certificate, if the listener has
  // TLS.
  std::string Ask(const std::string& request, const std::string& certificate = "") {
    const ListenAddress address = {"127.0.0.1", server_->metrics_port()};
    if (!with_tls_) {
      RawConnection connection(address);
      connection.Send(request);
      return connection.Read();
    }
    const TlsFiles none = {.ca = files_.Path("ca.pem"), .certificate = "", .key = ""};
    TlsConnection connection(address, certificate.empty() ? none : files_.IssueTo(certificate, authority_, "ca.pem"));
    connection.Send(request);
    return connection.Read();
  }

  std::vector<v1::AuditEntry> Audited() {
    v1::ListAuditEntriesRequest request;
    request.set_limit(1000);
    v1::ListAuditEntriesResponse response;
    EXPECT_TRUE(v1::AuthService::Stub(admin_.NewChannel()).ListAuditEntries(Context().get(), request, &response).ok());
    std::vector<v1::AuditEntry> pages;
    for (const v1::AuditEntry& entry : response.entries()) {
      if (entry.method() == "GET /metrics") {
        pages.push_back(entry);
      }
    }
    return pages;
  }

 private:
  const bool with_tls_;
  CertificateFiles files_;
  const CertificateAndKey authority_ = CertificateFiles::Authority();
  std::unique_ptr<TestServer> server_;
  ServerAccess admin_;
};

class HttpAccess : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutTls, HttpAccess, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithTls" : "WithoutTls"; });

TEST_P(HttpAccess, OnlyThoseWithTheRightToScrapeSeeTheMetrics) {
  ScrapedServer server(GetParam());
  constexpr std::pair<v1::Role, bool> kRoles[] = {{v1::VIEWER, false},  {v1::SUBMITTER, false}, {v1::AGENT, false},
                                                  {v1::OPERATOR, true}, {v1::ADMIN, true},      {v1::SCRAPER, true}};
  for (const auto& [role, may] : kRoles) {
    const std::string secret = server.Token(absl::StrCat("r", static_cast<int>(role)), role);
    const std::string answer = server.Ask(Request("/metrics", {Bearer(secret)}));
    EXPECT_THAT(answer, StartsWith(may ? kOk : kForbidden)) << v1::Role_Name(role);
    EXPECT_THAT(answer, HasSubstr(may ? "\nampd_build_info{" : "needs the role operator, admin or scraper\n"));
    const std::string targets = server.Ask(Request("/sd/workers", {Bearer(secret)}));
    EXPECT_THAT(targets, StartsWith(may ? kOk : kForbidden)) << v1::Role_Name(role);
    EXPECT_THAT(targets, HasSubstr(may ? "Content-Type: application/json\r\n" : "needs the role operator"));
  }
  for (const std::vector<std::string>& headers : std::vector<std::vector<std::string>>{
           {}, {Bearer("ampd_wrong")}, {"Authorization: Basic YTpi"}, {"Authorization:"}, {"authorization: Bearer"}}) {
    const std::string answer = server.Ask(Request("/metrics", headers));
    EXPECT_THAT(answer, AllOf(StartsWith(kUnknown), HasSubstr("WWW-Authenticate: Bearer realm=\"ampd\"\r\n"),
                              Not(HasSubstr("ampd_build_info"))));
    EXPECT_THAT(server.Ask(Request("/sd/workers", headers)), StartsWith(kUnknown));
  }
}

TEST_P(HttpAccess, ATokenCountsOnceOnly_AndWhateverTheCaseOfItsHeader) {
  ScrapedServer server(GetParam());
  const std::string secret = server.Token("prometheus", v1::SCRAPER);
  EXPECT_THAT(server.Ask(Request("/metrics", {"AUTHORIZATION: bearer " + secret})), StartsWith(kOk));
  EXPECT_THAT(server.Ask(Request("/metrics", {Bearer(secret), Bearer(secret)})), StartsWith(kUnknown));
  EXPECT_THAT(server.Ask(Request("/metrics", {Bearer("ampd_wrong"), Bearer(secret)})), StartsWith(kUnknown));
  EXPECT_THAT(server.Ask(Request("/metrics?token=" + secret)), StartsWith(kUnknown));
}

TEST_P(HttpAccess, TheHealthPagesAreOpenToEverybody) {
  ScrapedServer server(GetParam());
  for (const char* const path : {"/healthz", "/readyz"}) {
    EXPECT_THAT(server.Ask(Request(path)), StartsWith(kOk)) << path;
    EXPECT_THAT(server.Ask(Request(path, {Bearer("ampd_wrong")})), StartsWith(kOk)) << path;
  }
  EXPECT_THAT(server.Ask(Request("/")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(server.Ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), StartsWith(kUnknown));
}

TEST_P(HttpAccess, AScraperOfOneTenantSeesNoByteOfAnother) {
  ScrapedServer server(GetParam());
  server.Submit("marlin", "job-of-marlin");
  server.Submit("heron", "job-of-heron");
  const std::string all = server.Ask(Request("/metrics", {Bearer(server.Token("all", v1::SCRAPER))}));
  EXPECT_THAT(all, AllOf(HasSubstr("job-of-marlin"), HasSubstr("job-of-heron"), HasSubstr("ampd_journal_")));
  for (const auto& [own, other] : {std::pair("marlin", "heron"), std::pair("heron", "marlin")}) {
    const std::string page = server.Ask(Request("/metrics", {Bearer(server.Token(own, v1::SCRAPER, own))}));
    EXPECT_THAT(page, AllOf(StartsWith(kOk), HasSubstr(absl::StrCat("name=\"job-of-", own, "\"")),
                            HasSubstr("\nampd_build_info{"), Not(HasSubstr(other)), Not(HasSubstr("ampd_journal_")),
                            Not(HasSubstr("ampd_grpc_")), Not(HasSubstr("process_"))));
  }
}

TEST_P(HttpAccess, RefusedRequestsAreInTheAuditLog_AndAFloodHasFewEntries) {
  ScrapedServer server(GetParam());
  const std::string viewer = server.Token("viewer", v1::VIEWER);
  const std::string scraper = server.Token("prometheus", v1::SCRAPER);
  for (int i = 0; i < 100; ++i) {
    server.Ask(Request("/metrics", {Bearer("ampd_planted_secret")}));
  }
  server.Ask(Request("/metrics", {Bearer(viewer)}));
  server.Ask(Request("/metrics", {Bearer(scraper)}));
  std::vector<std::string> lines;
  for (const v1::AuditEntry& entry : server.Audited()) {
    lines.push_back(absl::StrCat(entry.caller(), " ", entry.code(), " ", entry.reason()));
    EXPECT_THAT(entry.address(), StartsWith("ipv4:127.0.0.1:"));
    EXPECT_THAT(entry.DebugString(), Not(HasSubstr("planted")));
  }
  EXPECT_THAT(lines, ElementsAre(" UNAUTHENTICATED TOKEN_UNKNOWN", "token:viewer PERMISSION_DENIED ROLE_TOO_LOW"));
}

TEST_P(HttpAccess, TheAuditEntryOfARefusedRequestHasItsTrace) {
  ScrapedServer server(GetParam());
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736",
                    header = "TraceParent: 00-" + trace + "-00f067aa0ba902b7-01";
  server.Ask(Request("/metrics", {Bearer("ampd_first"), header}));
  EXPECT_EQ(server.Audited().back().trace_id(), trace);
  EXPECT_EQ(server.Audited().back().parent_span_id(), "00f067aa0ba902b7");
  const std::string viewer = server.Token("viewer", v1::VIEWER);
  server.Ask(Request("/metrics", {Bearer(viewer), header, header}));
  EXPECT_EQ(server.Audited().back().caller(), "token:viewer");
  EXPECT_NE(server.Audited().back().trace_id(), trace) << "a request with two names no trace";
  EXPECT_EQ(server.Audited().back().trace_id().size(), trace.size());
}

TEST_P(HttpAccess, ScrapesCountAsCallsOfTheirCaller) {
  ScrapedServer server(GetParam(), /*trusts_loopback=*/false, "requests=1");
  const std::string first = Request("/metrics", {Bearer(server.Token("first", v1::SCRAPER))});
  const std::string second = Request("/metrics", {Bearer(server.Token("second", v1::SCRAPER))});
  std::string answer;
  for (int i = 0; i < 200 && !absl::StartsWith(answer, "HTTP/1.1 429 "); ++i) {
    answer = server.Ask(first);
  }
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 429 Too Many Requests\r\n"), HasSubstr("\r\nRetry-After: 1\r\n"),
                            HasSubstr("the server takes 1 calls a second of the caller token:first")));
  EXPECT_THAT(server.Ask(second), StartsWith(kOk));
  EXPECT_THAT(server.Ask(Request("/healthz")), StartsWith(kOk));
}

TEST(HttpAccessOfCertificates, TheirGrantsDecide_AndATokenTakesTheirPlace) {
  ScrapedServer server(/*with_tls=*/true);
  server.Submit("marlin", "job-of-marlin");
  server.Submit("heron", "job-of-heron");
  EXPECT_THAT(server.Ask(Request("/metrics"), "prometheus"),
              AllOf(StartsWith(kOk), HasSubstr("job-of-marlin"), HasSubstr("job-of-heron")));
  EXPECT_THAT(server.Ask(Request("/metrics"), "heron-1"),
              AllOf(StartsWith(kOk), Not(HasSubstr("marlin")), HasSubstr("job-of-heron")));
  EXPECT_THAT(server.Ask(Request("/metrics"), "viewer"),
              AllOf(StartsWith(kForbidden), HasSubstr("cert:viewer has the role viewer")));
  EXPECT_THAT(server.Ask(Request("/metrics"), "stranger"),
              AllOf(StartsWith(kUnknown), HasSubstr("--grant cert:stranger=ROLE")));
  EXPECT_THAT(server.Ask(Request("/metrics"), "evil name"), StartsWith(kUnknown));
  EXPECT_THAT(server.Ask(Request("/metrics", {Bearer("ampd_wrong")}), "prometheus"), StartsWith(kUnknown));
  EXPECT_EQ(server.Audited().back().caller(), "cert:prometheus") << "the certificate says who tried the token";
  EXPECT_THAT(server.Ask(Request("/metrics", {Bearer(server.Token("t", v1::SCRAPER))}), "stranger"), StartsWith(kOk));
}

TEST(HttpAccessOfLoopback, WhoIsTrustedForCallsMayScrapeToo_ButNotOverTls) {
  ScrapedServer plain(/*with_tls=*/false, /*trusts_loopback=*/true);
  EXPECT_THAT(plain.Ask(Request("/metrics")), StartsWith(kOk));
  EXPECT_THAT(plain.Ask(Request("/metrics", {Bearer("ampd_wrong")})), StartsWith(kUnknown));
  ScrapedServer tls(/*with_tls=*/true, /*trusts_loopback=*/true);
  EXPECT_THAT(tls.Ask(Request("/metrics")), StartsWith(kUnknown));
}

TEST(PageRules, EveryPageHasARow_AndNoOtherRowsExist) {
  std::vector<std::string> pages;
  for (const std::string& path : ServerRoutes(/*guard=*/nullptr, {}).paths()) {
    pages.push_back("GET " + path);
  }
  std::vector<std::string> rows;
  for (const Rule& rule : PageRules()) {
    rows.emplace_back(rule.method);
    EXPECT_EQ(FindRule(rule.method), &rule);
  }
  EXPECT_EQ(rows, pages) << "rows are ordered by method";
}

}  // namespace
}  // namespace ampd::server
