// Tests the worker's HTTP endpoint: what its pages contain, and which clients may read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/simulated_clock.h"
#include "tests/base/http/raw_connection.h"
#include "tests/base/http/tls_connection.h"
#include "tests/base/tls/certificate_files.h"
#include "worker/agent/metrics.h"

namespace ampd::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string Get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"; }

class MetricsEndpointTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const TlsFiles& tls) {
    return MetricsEndpoint::Listen(
        {"127.0.0.1", 0}, tls,
        {.version = "1", .counters = &counters_, .times = &times_, .clock = &clock_, .worker = "w1"});
  }

  AgentCounters counters_;
  TrainingTimes times_;
  SimulatedClock clock_;
};

TEST_F(MetricsEndpointTest, WithoutTlsEverybodyWhoCanConnectSeesThePages) {
  const auto endpoint = Listen({});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  RawConnection connection({"127.0.0.1", (*endpoint)->port()});
  connection.Send(Get("/metrics"));
  EXPECT_THAT(connection.Read(), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("ampd_worker_build_info{")));
}

TEST_F(MetricsEndpointTest, ThePageHasTheWorkersNameAndCounters) {
  counters_.num_out_of_memory = 3;
  times_.AddStep("fp32", 2);
  const auto endpoint = Listen({});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  RawConnection connection({"127.0.0.1", (*endpoint)->port()});
  connection.Send(Get("/metrics"));
  EXPECT_THAT(
      connection.Read(),
      AllOf(HasSubstr("\nampd_worker_info{worker=\"w1\"} 1\n"), HasSubstr("\nampd_worker_out_of_memory_total 3\n"),
            HasSubstr("\nampd_worker_step_seconds_count{precision=\"fp32\"} 1\n"),
            HasSubstr("\nampd_worker_checkpoint_save_seconds_count 0\n"), HasSubstr("\nprocess_open_fds ")));
}

TEST_F(MetricsEndpointTest, WithTlsEveryPageNeedsACertificateOfTheCa) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority(), other = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const auto endpoint = Listen(files.IssueTo("worker", authority, "ca.pem", {"127.0.0.1"}));
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto ask = [&](const TlsFiles& client, const std::string& path) {
    TlsConnection connection({"127.0.0.1", (*endpoint)->port()}, client);
    connection.Send(Get(path));
    return connection.Read();
  };
  const TlsFiles scraper = files.IssueTo("any name", authority, "ca.pem");
  EXPECT_THAT(ask(scraper, "/metrics"), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("ampd_worker_build_info{")));
  for (const char* const path : {"/metrics", "/healthz", "/readyz"}) {
    EXPECT_EQ(ask({.ca = scraper.ca, .certificate = "", .key = ""}, path), "") << path;
    EXPECT_EQ(ask(files.IssueTo("foreign", other, "ca.pem"), path), "") << path;
  }
  EXPECT_THAT(ask(scraper, "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsEndpointTest, FilesThatDoNotFitAreNamed) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  TlsFiles tls = files.IssueTo("worker", authority, "ca.pem", {"127.0.0.1"});
  tls.key = files.IssueTo("other", authority, "ca.pem", {"127.0.0.1"}).key;
  const absl::Status refused = Listen(tls).status();
  EXPECT_EQ(ReasonOf(refused), "BAD_TLS_FILES");
  EXPECT_THAT(std::string(refused.message()), HasSubstr(tls.key));
}

}  // namespace
}  // namespace ampd::agent
