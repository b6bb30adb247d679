// TLS of the HTTP listener: which clients it serves, its deadlines and limits, and what happens when files change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/http/listener.h"
#include "base/http/tls_settings.h"
#include "tests/base/http/raw_connection.h"
#include "tests/base/http/tls_connection.h"
#include "tests/base/tls/certificate_files.h"

namespace ampd::http {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kGetWho[] = "GET /who HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
constexpr char kGetWhoAgain[] = "GET /who HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr absl::Duration kPatience = absl::Seconds(30);

class TlsListenerTest : public testing::Test {
 protected:
  TlsListenerTest() {
    files_.Write("ca.pem", authority_.certificate + second_.certificate);
    server_ = files_.IssueTo("server", authority_, "ca.pem", {"127.0.0.1"});
  }

  // Starts a listener whose route "/who" answers with the name of the client's certificate, in brackets.
  void Start(Listener::Options options = {}, bool asks_for_certificates = true) {
    options.address = {"127.0.0.1", 0};
    options.tls = server_;
    options.tls.ca = asks_for_certificates ? server_.ca : "";
    options.router.Add("GET", "/who", [](const Request& request) {
      return Text(200, absl::StrCat("[", request.certificate_name, "] ", request.peer));
    });
    auto started = Listener::Start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    listener_ = *std::move(started);
    address_ = {"127.0.0.1", listener_->port()};
  }

  // The TLS files of a client that knows the server's CA but has no certificate.
  TlsFiles CaOnly() const { return {.ca = files_.Path("ca.pem"), .certificate = "", .key = ""}; }

  // Sends a request on a new connection, and returns the whole answer; empty if the listener does not serve the client.
  std::string Ask(const TlsFiles& client, const std::string& request = kGetWho) {
    TlsConnection connection(address_, client);
    connection.Send(request);
    return connection.Read();
  }

  CertificateFiles files_;
  const CertificateAndKey authority_ = CertificateFiles::Authority("first");
  const CertificateAndKey second_ = CertificateFiles::Authority("second");
  TlsFiles server_;
  ListenAddress address_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(TlsListenerTest, ServesOverTls13_AndOverNothingOlder) {
  Start({}, /*asks_for_certificates=*/false);
  EXPECT_THAT(Ask(CaOnly()), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("[] ipv4:127.0.0.1:")));
  TlsConnection old(address_, CaOnly(), TLS1_2_VERSION);
  EXPECT_FALSE(old.ok());
}

TEST_F(TlsListenerTest, ManyRequestsOnOneConnection) {
  Start();
  TlsConnection connection(address_, CaOnly());
  for (int i = 0; i < 3; ++i) {
    connection.Send(kGetWhoAgain);
    EXPECT_THAT(connection.Read("\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  EXPECT_EQ(listener_->counters().num_accepted, 1);
}

TEST_F(TlsListenerTest, PlainHttpIsClosedWithoutAnAnswer) {
  Start();
  RawConnection plain(address_);
  plain.Send(kGetWho);
  EXPECT_THAT(plain.Read(), Not(HasSubstr("HTTP")));
}

TEST_F(TlsListenerTest, AHandshakeThatDoesNotEndIsClosedAfterItsDeadline) {
  Listener::Options options;
  options.handshake_deadline = absl::Milliseconds(300);
  options.request_deadline = absl::Hours(1);
  Start(std::move(options));
  RawConnection silent(address_);
  RawConnection half(address_);
  half.Send(std::string_view("\x16\x03\x01\x02\x00\x01\x00", 7));  // The beginning of a ClientHello.
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_TRUE(half.IsClosed());
}

TEST_F(TlsListenerTest, ARequestThatDoesNotEndIsClosedAfterItsDeadline) {
  Listener::Options options;
  options.request_deadline = absl::Milliseconds(300);
  Start(std::move(options));
  const absl::Time start = absl::Now();
  TlsConnection connection(address_, CaOnly());
  ASSERT_TRUE(connection.ok());
  connection.Send("GET /who HTTP/1.1\r\n");
  EXPECT_EQ(connection.Read(), "");
  EXPECT_LT(absl::Now() - start, kPatience / 2);
}

TEST_F(TlsListenerTest, UnfinishedHandshakesCountAsConnections_AndTheLongestWaitingMakesRoom) {
  Listener::Options options;
  options.max_connections = 8;
  options.handshake_deadline = absl::Hours(1);
  Start(std::move(options));
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(std::make_unique<RawConnection>(address_));
  }
  EXPECT_THAT(Ask(CaOnly()), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(silent.front()->IsClosed());
  EXPECT_FALSE(silent.back()->IsClosed(absl::Milliseconds(50))) << "a newer one stays";
  EXPECT_LE(listener_->counters().num_open, 8);
  EXPECT_GE(listener_->counters().num_evicted, 43);
}

TEST_F(TlsListenerTest, AClientThatNeverClosesMakesRoomToo) {
  Listener::Options options;
  options.max_connections = 1;
  Start(std::move(options));
  TlsConnection lazy(address_, CaOnly());
  lazy.Send(kGetWho);
  EXPECT_THAT(lazy.Read("\n"), StartsWith("HTTP/1.1 200 OK\r\n"));  // The client never closes the connection.
  EXPECT_THAT(Ask(CaOnly()), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(TlsListenerTest, WhatIsTooLargeOrNoRequestIsRefused) {
  Start();
  EXPECT_THAT(Ask(CaOnly(), absl::StrCat("GET /who HTTP/1.1\r\nX-Long: ", std::string(20'000, 'a'), "\r\n\r\n")),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      Ask(CaOnly(), absl::StrCat("POST /who HTTP/1.1\r\nContent-Length: 70000\r\n\r\n", std::string(70'000, 'b'))),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(CaOnly(), "no http\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(TlsListenerTest, ACertificateIsNamedByItsCommonName_AndNoneIsNeeded) {
  Start();
  EXPECT_THAT(Ask(CaOnly()), HasSubstr("\r\n\r\n[] "));
  EXPECT_THAT(Ask(files_.IssueTo("prometheus", authority_, "ca.pem")), HasSubstr("\r\n\r\n[prometheus] "));
}

TEST_F(TlsListenerTest, AWrongCertificateIsRefused_AndIsNotTakenForNone) {
  Start();
  const CertificateAndKey other = CertificateFiles::Authority("other");
  EXPECT_EQ(Ask(files_.IssueTo("foreign", other, "ca.pem")), "");
  EXPECT_EQ(Ask(files_.IssueTo("expired", authority_, "ca.pem", {}, -absl::Seconds(1))), "");
  EXPECT_EQ(Ask(files_.IssueTo("wrong", authority_, "ca.pem", {"127.0.0.1"})), "") << "one of a server";
}

TEST_F(TlsListenerTest, WithCertificatesNeeded_NobodyIsServedWithoutOne) {
  Listener::Options options;
  options.needs_client_certificate = true;
  Start(std::move(options));
  EXPECT_EQ(Ask(CaOnly()), "");
  EXPECT_THAT(Ask(files_.IssueTo("prometheus", authority_, "ca.pem")), HasSubstr("[prometheus]"));
}

TEST_F(TlsListenerTest, NewHandshakesUseTheNewCertificate_AndOpenConnectionsLiveOn) {
  Start();
  TlsConnection open(address_, CaOnly());
  EXPECT_EQ(open.ServerName(), "server");
  const CertificateAndKey renewed = CertificateFiles::Issue(authority_, "renewed", {"127.0.0.1"});
  files_.Write("server.key", renewed.key);
  files_.Write("server.pem", renewed.certificate);
  const absl::Time end = absl::Now() + kPatience;
  while (TlsConnection(address_, CaOnly()).ServerName() != "renewed") {
    ASSERT_LT(absl::Now(), end) << "the new certificate is not used";
  }
  open.Send(kGetWhoAgain);
  EXPECT_THAT(open.Read("\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(TlsListenerTest, AfterAnAuthorityIsRemoved_ItsConnectionsEndAtTheirNextRequest) {
  Start();
  TlsConnection kept(address_, files_.IssueTo("kept", authority_, "ca.pem"));
  TlsConnection removed(address_, files_.IssueTo("removed", second_, "ca.pem"));
  removed.Send(kGetWhoAgain);
  EXPECT_THAT(removed.Read("\n"), HasSubstr("[removed]"));
  files_.Write("ca.pem", authority_.certificate);
  const absl::Time end = absl::Now() + kPatience;
  for (std::string answer = "first"; !answer.empty(); answer = removed.Read("\n")) {
    ASSERT_LT(absl::Now(), end) << "it is served still";
    removed.Send(kGetWhoAgain);
  }
  kept.Send(kGetWhoAgain);
  EXPECT_THAT(kept.Read("\n"), HasSubstr("[kept]"));
}

TEST_F(TlsListenerTest, FilesThatDoNotFitAreRefusedAtTheStart_AndLaterNotUsed) {
  const absl::StatusOr<std::unique_ptr<TlsSettings>> settings = TlsSettings::Read(server_, false);
  ASSERT_TRUE(settings.ok()) << settings.status();
  const auto before = (*settings)->Current();
  const CertificateAndKey renewed = CertificateFiles::Issue(authority_, "renewed", {"127.0.0.1"});
  files_.Write("server.key", renewed.key);
  (*settings)->Refresh();
  EXPECT_EQ((*settings)->Current(), before) << "the key is not that of the certificate yet";
  EXPECT_EQ(ReasonOf(TlsSettings::Read(server_, false).status()), "BAD_TLS_FILES");
  files_.Write("server.pem", renewed.certificate);
  (*settings)->Refresh();
  const auto after = (*settings)->Current();
  EXPECT_NE(after, before);
  (*settings)->Refresh();
  EXPECT_EQ((*settings)->Current(), after) << "nothing has changed";
  files_.Write("ca.pem", "no certificate");
  (*settings)->Refresh();
  EXPECT_EQ((*settings)->Current(), after);
}

}  // namespace
}  // namespace ampd::http
