// Tests TLS on --listen: which certificates the server accepts, which identity and role each gives, and what happens
// when certificates are replaced or are no longer trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/grpc/channel.h"
#include "base/grpc/grpc_status.h"
#include "server/access/rules.h"
#include "tests/base/tls/certificate_files.h"
#include "tests/count_from_environment.h"
#include "tests/server/rpc/empty_call.h"
#include "tests/server/rpc/open_watch.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// A server with TLS that trusts two certificate authorities.
class TlsServer {
 public:
  // `host`: the host in the server's certificate.
  explicit TlsServer(const std::string& host = "127.0.0.1") {
    WriteAuthorities(first_.certificate + second_.certificate);
    const TlsFiles tls = files_.IssueTo("server", first_, "ca.pem", {host});
    server_ = std::make_unique<TestServer>([tls](ServerConfig* config) {
      config->tls = tls;
      config->trusts_loopback = false;
      for (const char* const grant :
           {"cert:viewer=viewer", "cert:submitter=submitter", "cert:operator=operator", "cert:admin=admin",
            "cert:agent=agent", "cert:scraper=scraper", "cert:gpu-*=agent"}) {
        EXPECT_TRUE(config->grants.Add(grant).ok());
      }
    });
  }

  void WriteAuthorities(const std::string& certificates) { files_.Write("ca.pem", certificates); }
  void RenewServer() { files_.IssueTo("server", first_, "ca.pem", {"127.0.0.1"}); }

  // Returns access over a connection with a new certificate for this name.
  std::unique_ptr<ServerAccess> As(const std::string& name, const std::string& token = "") {
    return With(files_.IssueTo(name, first_, "ca.pem"), token);
  }
  std::unique_ptr<ServerAccess> With(const TlsFiles& tls, const std::string& token = "") {
    auto access = std::make_unique<ServerAccess>();
    access->Connect({.address = server_->address(), .token = token, .tls = tls});
    return access;
  }

  CertificateFiles& files() { return files_; }
  const CertificateAndKey& first() const { return first_; }
  const CertificateAndKey& second() const { return second_; }
  TestServer& server() { return *server_; }

 private:
  CertificateFiles files_;
  const CertificateAndKey first_ = CertificateFiles::Authority("first");
  const CertificateAndKey second_ = CertificateFiles::Authority("second");
  std::unique_ptr<TestServer> server_;
};

absl::StatusOr<v1::Caller> WhoIs(const ServerAccess& access) {
  v1::Caller caller;
  const grpc::Status status =
      v1::AuthService::Stub(access.NewChannel()).WhoAmI(Context().get(), v1::WhoAmIRequest(), &caller);
  return status.ok() ? absl::StatusOr<v1::Caller>(caller) : FromGrpcStatus(status);
}

TEST(TlsAccess, EveryMethodIsRefusedExactlyToTheCertificatesWhoseRoleLacksItsRight) {
  TlsServer server;
  for (const Role role :
       {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kAgent, Role::kScraper}) {
    const std::string name(RoleName(role));
    const auto access = server.As(name);
    for (const Rule& rule : AllRules()) {
      const bool may = CheckMethod(Identity::InAllTenants("cert:x", role), rule.method).ok();
      const absl::Status status = CallEmpty(*access, rule.method);
      EXPECT_NE(ReasonOf(status) == "ROLE_TOO_LOW", may) << rule.method << " by " << name << ": " << status;
      EXPECT_NE(status.code(), absl::StatusCode::kUnauthenticated) << rule.method << " by " << name;
      EXPECT_NE(status.code(), absl::StatusCode::kUnavailable) << rule.method << " by " << name << ": " << status;
    }
  }
}

TEST(TlsAccess, ACertificateIsNamedByItsCommonName_AndWithoutAGrantHasNoRole) {
  TlsServer server;
  EXPECT_EQ(WhoIs(*server.As("viewer"))->name(), "cert:viewer");
  EXPECT_THAT(WhoIs(*server.As("stranger"))->roles(), ElementsAre());
  EXPECT_EQ(ReasonOf(CallEmpty(*server.As("stranger"), "ampd.v1.JobService/ListJobs")), "NO_ROLE");
  for (const char* const name : {"evil\nname", "evil name", "a*"}) {
    EXPECT_EQ(ReasonOf(WhoIs(*server.As(name)).status()), "BAD_CERTIFICATE_NAME") << name;
  }
}

// If a client connects but makes no call, the entry for its connection is its only entry in the audit log.
TEST(TlsAccess, WhoConnectsIsInTheAuditLog_OnceAMinute) {
  TlsServer server;
  for (int i = 0; i < 3; ++i) {
    const auto channel = server.As("gpu-7")->NewChannel();
    ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  }
  v1::ListAuditEntriesResponse entries;
  v1::AuthService::Stub admin(server.As("admin")->NewChannel());
  ASSERT_TRUE(admin.ListAuditEntries(Context().get(), v1::ListAuditEntriesRequest(), &entries).ok());
  std::vector<std::string> connections;
  for (const v1::AuditEntry& entry : entries.entries()) {
    if (entry.method() == "connection") {
      connections.push_back(entry.caller());
    }
  }
  EXPECT_THAT(connections, UnorderedElementsAre("cert:gpu-7", "cert:admin"));
}

TEST(TlsAccess, ATokenTakesThePlaceOfTheCertificate) {
  TlsServer server;
  v1::CreateTokenRequest request;
  request.set_name("ci");
  request.set_role(v1::SUBMITTER);
  v1::CreateTokenResponse created;
  ASSERT_TRUE(
      v1::AuthService::Stub(server.As("admin")->NewChannel()).CreateToken(Context().get(), request, &created).ok());
  const auto caller = WhoIs(*server.As("stranger", created.secret()));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->name(), "token:ci");
  EXPECT_FALSE(WhoIs(*server.As("admin", created.secret() + "x")).ok());
}

TEST(TlsAccess, NobodyGetsInWithoutACertificateOfItsAuthorities) {
  TlsServer server;
  const CertificateAndKey other = CertificateFiles::Authority("other");
  const CertificateFiles& files = server.files();
  const TlsFiles none{.ca = files.Path("ca.pem"), .certificate = "", .key = ""};
  const TlsFiles foreign = files.IssueTo("foreign", other, "ca.pem");
  const TlsFiles expired = files.IssueTo("expired", server.first(), "ca.pem", {}, -absl::Seconds(1));
  const TlsFiles of_server = files.IssueTo("wrong", server.first(), "ca.pem", {"127.0.0.1"});
  for (const TlsFiles& tls : {none, foreign, expired, of_server, TlsFiles()}) {
    EXPECT_EQ(WhoIs(*server.With(tls)).status().code(), absl::StatusCode::kUnavailable) << tls.certificate;
  }
  EXPECT_TRUE(WhoIs(*server.As("viewer")).ok());
}

TEST(TlsAccess, AClientRefusesAServerOfAnotherAuthorityOrHost) {
  TlsServer server;
  const CertificateAndKey other = CertificateFiles::Authority("other");
  server.files().Write("other.pem", other.certificate);
  TlsFiles tls = server.files().IssueTo("viewer", server.first(), "ca.pem");
  tls.ca = server.files().Path("other.pem");
  EXPECT_EQ(WhoIs(*server.With(tls)).status().code(), absl::StatusCode::kUnavailable);
  TlsServer of_another_host("node1");
  EXPECT_EQ(WhoIs(*of_another_host.As("viewer")).status().code(), absl::StatusCode::kUnavailable);
}

TEST(TlsAccess, AnAgentIsTheWorkerOfItsCertificatesNameOnly) {
  TlsServer server;
  const auto agent = server.As("gpu-1");
  ScriptedWorker own(agent.get(), "gpu-1");
  own.Report();
  ScriptedWorker other(agent.get(), "gpu-2");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(other.ReportToBeRefused())), "WRONG_WORKER");
}

TEST(TlsAccess, AfterAnAuthorityIsRemoved_ItsStreamsEndAndAllOthersLiveOn) {
  TlsServer server;
  const auto kept = server.As("admin");
  const auto removed = server.With(server.files().IssueTo("viewer", server.second(), "ca.pem"));
  const v1::Job job = kept->CreateJob(GoodSpec("watched"));
  OpenWatch first(removed.get(), job.id()), second(kept.get(), job.id());
  server.WriteAuthorities(server.first().certificate);
  EXPECT_LT(first.AwaitEnd(), absl::Seconds(5));
  EXPECT_EQ(ReasonOf(first.status()), "CERTIFICATE_NOT_TRUSTED") << first.status();
  // gRPC reloads the file of authorities once a second. Until then its handshake still accepts the client, and the
  // guard refuses the call.
  EXPECT_FALSE(WhoIs(*removed).ok());
  for (const absl::Duration end = SystemClock().SinceBoot() + absl::Seconds(10);
       WhoIs(*removed).status().code() != absl::StatusCode::kUnavailable;) {
    ASSERT_LT(SystemClock().SinceBoot(), end) << "handshakes are refused too";
  }
  EXPECT_EQ(kept->GetJob(job.id()).id(), job.id());
  EXPECT_TRUE(WhoIs(*kept).ok());
  second.End();
}

// If gRPC got the new key together with the old certificate, it would refuse all new connections.
TEST(TlsAccess, BetweenTheReplacementsOfKeyAndCertificate_NewConnectionsUseTheOldPair) {
  TlsServer server;
  const auto access = server.As("operator");
  const CertificateAndKey next = CertificateFiles::Issue(server.first(), "server", {"127.0.0.1"});
  server.files().Write("server.key", next.key);
  for (const absl::Duration end = SystemClock().SinceBoot() + absl::Seconds(3); SystemClock().SinceBoot() < end;) {
    const absl::StatusOr<v1::Caller> caller = WhoIs(*access);
    ASSERT_TRUE(caller.ok()) << caller.status();
  }
  server.files().Write("server.pem", next.certificate);
  EXPECT_TRUE(WhoIs(*access).ok());
}

TEST(TlsAccess, WhileCertificatesAreReplaced_NoStreamBreaksAndNoCallFails) {
  const int64_t num_rotations = CountFromEnvironment("AMPD_ROTATIONS", 3);
  TlsServer server;
  const auto admin = server.As("admin");
  const auto steady = server.As("operator");
  const v1::Job job = admin->CreateJob(GoodSpec("watched"));
  std::vector<std::unique_ptr<OpenWatch>> watches;
  for (int i = 0; i < 20; ++i) {
    watches.push_back(std::make_unique<OpenWatch>(admin.get(), job.id()));
  }
  std::atomic<bool> done = false;
  std::atomic<int> num_calls = 0;
  std::thread caller([&] {
    while (!done) {
      // WhoIs opens a new connection in each call, and so makes a handshake with the server's certificate of that
      // moment. The test does not replace the certificate and the key of the client `steady`. Otherwise a new
      // connection could read the new key together with the old certificate, and fail.
      const auto caller = WhoIs(*steady);
      EXPECT_TRUE(caller.ok()) << caller.status();
      ++num_calls;
      EXPECT_EQ(admin->CreateJob(GoodSpec("rotated")).state(), v1::Job::QUEUED);
    }
  });
  for (int64_t i = 0; i < num_rotations; ++i) {
    server.RenewServer();
    server.files().IssueTo("admin", server.first(), "ca.pem");
    const absl::Duration next = SystemClock().SinceBoot() + absl::Seconds(1.2);
    while (SystemClock().SinceBoot() < next) {
      EXPECT_EQ(admin->GetJob(job.id()).id(), job.id());
    }
  }
  done = true;
  caller.join();
  EXPECT_GT(num_calls, num_rotations);
  for (const auto& watch : watches) {
    EXPECT_FALSE(watch->HasEnded());
    watch->End();
  }
}

}  // namespace
}  // namespace ampd::server
