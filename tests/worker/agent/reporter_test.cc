#include "worker/agent/reporter.h"

#include <string>
#include <vector>

#include "base/api/tenants.h"
#include "base/simulated_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/agent/fake_link.h"

namespace ampd::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReporterTest : public testing::Test {
 protected:
  Reporter::Options Options() {
    Reporter::Options options;
    options.name = "w1";
    options.version = "1.2.3";
    options.metrics_address = "127.0.0.1:9";
    options.identity.set_id("id");
    options.state_folder = "/state";
    options.data_roots = {{"cifar", {"/data/cifar"}}, {"text", {"/data/text", Tenants({"nlp", "vision"})}}};
    options.tenants = {"nlp", "vision", "audio"};
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    options.clock = &clock_;
    options.random = &random_;
    options.link = &link_;
    return options;
  }

  absl::Duration Now() const { return clock_.SinceBoot(); }
  bool IsDue() const { return reporter_.NextReport(Now()) <= Now(); }

  // Sends a report, and returns the report as the link gets it.
  v1::WorkerReport Send(bool stopping = false) {
    v1::WorkerReport content;
    content.set_stopping(stopping);
    reporter_.Send(content, Now());
    return link_.reports.back();
  }

  // A directive that answers the report with the number `sequence`.
  static v1::WorkerDirective Answer(uint64_t sequence, int64_t lease_seconds = 0) {
    v1::WorkerDirective directive;
    directive.set_acknowledged_report(sequence);
    directive.mutable_lease()->set_seconds(lease_seconds);
    return directive;
  }

  SimulatedClock clock_;
  SeededRandom random_{1};
  FakeLink link_;
  std::vector<std::string> lines_;
  Reporter reporter_{Options()};
};

TEST_F(ReporterTest, WithoutAStream_NoReportIsEverDue) {
  reporter_.ReportSoon();
  EXPECT_EQ(reporter_.NextReport(Now()), absl::InfiniteDuration());
  EXPECT_FALSE(reporter_.is_attached());
  reporter_.OnStreamOpened();
  EXPECT_TRUE(IsDue());
  EXPECT_TRUE(reporter_.is_attached());
}

TEST_F(ReporterTest, Report_IsDueFiveTimesALeaseAndWhenAsked) {
  reporter_.OnStreamOpened();
  reporter_.OnDirective(Answer(0, /*lease_seconds=*/10));
  Send();
  EXPECT_EQ(reporter_.NextReport(Now()) - Now(), absl::Seconds(2));
  reporter_.OnDirective(Answer(1));  // contains no lease, so the interval stays
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(IsDue());
  Send();
  EXPECT_FALSE(IsDue());
  reporter_.ReportSoon();
  EXPECT_TRUE(IsDue());
  Send();
  EXPECT_FALSE(IsDue());
}

TEST_F(ReporterTest, Report_SaysWhoSendsItAndWhen) {
  reporter_.OnStreamOpened();
  EXPECT_EQ(reporter_.last_send_boottime_nanos(), 0);
  const v1::WorkerReport first = Send();
  EXPECT_EQ(first.worker(), "w1");
  EXPECT_EQ(first.version(), "1.2.3");
  EXPECT_EQ(first.metrics_address(), "127.0.0.1:9");
  EXPECT_EQ(first.agent().id(), "id");
  EXPECT_THAT(first.data_roots(), ElementsAre("cifar", "text"));
  EXPECT_THAT(first.tenants(), ElementsAre("nlp", "vision", "audio"));
  ASSERT_EQ(first.data_root_tenants_size(), 1);
  EXPECT_EQ(first.data_root_tenants(0).data_root(), "text");
  EXPECT_THAT(first.data_root_tenants(0).tenants(), ElementsAre("nlp", "vision"));
  EXPECT_EQ(first.sequence(), 1u);
  EXPECT_FALSE(first.yields());
  EXPECT_EQ(first.send_boottime_nanos(), absl::ToInt64Nanoseconds(Now()));
  EXPECT_EQ(reporter_.last_send_boottime_nanos(), first.send_boottime_nanos());
  const v1::WorkerReport second = Send();
  EXPECT_EQ(second.sequence(), 2u);
  EXPECT_EQ(second.incarnation(), first.incarnation());
}

TEST_F(ReporterTest, FirstDirectiveOfAStream_AcceptsTheWorker) {
  reporter_.OnStreamOpened();
  EXPECT_TRUE(reporter_.OnDirective(Answer(1)));
  EXPECT_FALSE(reporter_.OnDirective(Answer(2)));
  reporter_.OnStreamOpened();
  EXPECT_TRUE(reporter_.OnDirective(Answer(3)));
}

TEST_F(ReporterTest, ReplacedAgent_YieldsAsANewIncarnationUntilItIsAccepted) {
  reporter_.OnStreamOpened();
  const std::string before = Send().incarnation();
  reporter_.OnReplaced();
  reporter_.OnStreamOpened();
  reporter_.OnReplaced();
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("another agent took over as worker w1")));
  reporter_.OnStreamOpened();
  const v1::WorkerReport report = Send();
  EXPECT_TRUE(report.yields());
  EXPECT_NE(report.incarnation(), before);
  EXPECT_EQ(report.sequence(), 1u);
  reporter_.OnDirective(Answer(1));
  EXPECT_FALSE(Send().yields());
}

TEST_F(ReporterTest, Stop_IsKnownWhenTheServerHasProcessedAReportThatSaysSo) {
  reporter_.OnStreamOpened();
  Send();
  reporter_.OnDirective(Answer(1));
  EXPECT_FALSE(reporter_.StopIsKnown());
  Send(/*stopping=*/true);
  Send(/*stopping=*/true);
  reporter_.OnDirective(Answer(1));
  EXPECT_FALSE(reporter_.StopIsKnown());
  reporter_.OnDirective(Answer(2));
  EXPECT_TRUE(reporter_.StopIsKnown());
}

}  // namespace
}  // namespace ampd::agent
