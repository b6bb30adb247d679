// Tests `ampd-worker health` with workers that are ready, not ready, or do not answer.
#include "worker/agent/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/simulated_clock.h"
#include "tests/base/tls/certificate_files.h"
#include "worker/agent/metrics.h"

namespace ampd::agent {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Answer {
  int exit_code = 0;
  std::string out, err;
};

class HealthTest : public testing::Test {
 protected:
  HealthTest() { std::signal(SIGPIPE, SIG_IGN); }

  // Starts the HTTP endpoint of a worker that holds a lease.
  void Listen(const TlsFiles& tls = {}) {
    counters_.lease_deadline_nanos = absl::ToInt64Nanoseconds(clock_.SinceBoot() + absl::Seconds(10));
    auto endpoint = MetricsEndpoint::Listen(
        {"127.0.0.1", 0}, tls, {.version = "1", .counters = &counters_, .times = &times_, .clock = &clock_});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }

  // Runs `ampd-worker health --metrics-listen HOST:PORT` with further flags.
  Answer Ask(const std::string& host, const std::vector<std::string>& flags = {}) const {
    const std::string address = absl::StrCat(host, ":", endpoint_ == nullptr ? 1 : endpoint_->port());
    std::vector<const char*> arguments = {"ampd-worker", "health", "--metrics-listen", address.c_str()};
    for (const std::string& flag : flags) {
      arguments.push_back(flag.c_str());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Answer answer;
    answer.exit_code = RunHealthCommand(static_cast<int>(arguments.size()), arguments.data());
    answer.out = testing::internal::GetCapturedStdout();
    answer.err = testing::internal::GetCapturedStderr();
    return answer;
  }

  SimulatedClock clock_;
  AgentCounters counters_;
  TrainingTimes times_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(HealthTest, AWorkerWithALeaseIsReadyAndOneWithoutIsNot) {
  Listen();
  const Answer ready = Ask("127.0.0.1");
  EXPECT_EQ(ready.exit_code, 0) << ready.err;
  EXPECT_EQ(ready.out, "ready\n");
  counters_.lease_deadline_nanos = 0;
  const Answer waiting = Ask("127.0.0.1");
  EXPECT_EQ(waiting.exit_code, 1);
  EXPECT_THAT(waiting.err, StartsWith("ampd-worker: not ready: server: the worker holds no lease"));
}

TEST_F(HealthTest, WhereNobodyListensThereIsNoAnswer) {
  const Answer answer = Ask("127.0.0.1");
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.err, StartsWith("ampd-worker: no answer from 127.0.0.1:1: cannot connect"));
}

TEST_F(HealthTest, WithTlsItShowsTheCertificateOfTheWorker) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority(), other = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  Listen(files.IssueTo("metrics", authority, "ca.pem", {"worker"}));
  const TlsFiles client = files.IssueTo("worker-1", authority, "ca.pem");
  // 0.0.0.0 means all addresses of the worker's host. The command then connects to this host, with TLS.
  const Answer ready = Ask("0.0.0.0", {"--cert", client.certificate, "--key", client.key});
  EXPECT_EQ(ready.exit_code, 0) << ready.err;
  const TlsFiles foreign = files.IssueTo("foreign", other, "ca.pem");
  const Answer refused = Ask("0.0.0.0", {"--cert", foreign.certificate, "--key", foreign.key});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("if it asks for a certificate"));
  const Answer without = Ask("0.0.0.0");
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("health needs --cert and --key"));
  const Answer mixed = Ask("0.0.0.0", {"--cert", client.certificate, "--key", foreign.key});
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("cannot use the certificate"));
}

TEST_F(HealthTest, ItTakesTheFlagsOfTheWorkerAndRequiresNone) {
  Listen();
  const Answer ready = Ask("127.0.0.1", {"--server", "unix:/run/ampd/ampd.sock", "--cert", "/c", "--key", "/k"});
  EXPECT_EQ(ready.exit_code, 0) << "Without TLS the files of the connection to the server do not count. " << ready.err;
  const Answer wrong = Ask("127.0.0.1", {"--serve", "x"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--serve"));
}

TEST(HealthCommand, IsTheFirstWord) {
  const char* const health[] = {"ampd-worker", "health"};
  const char* const worker[] = {"ampd-worker", "--name", "health"};
  EXPECT_TRUE(IsHealthCommand(2, health));
  EXPECT_FALSE(IsHealthCommand(3, worker));
}

}  // namespace
}  // namespace ampd::agent
