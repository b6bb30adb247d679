// Tests the page that a scraper gets from the ampd-server program. Checks that events reach their counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/io/file.h"
#include "server/monitoring/log_counter.h"
#include "tests/base/http/raw_connection.h"
#include "tests/e2e/child_process.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

TEST(LogCounter, CountsWhatIsLoggedByLevel) {
  const auto counter = std::make_shared<LogCounter>();
  spdlog::logger logger("test", counter);
  logger.set_level(spdlog::level::info);
  logger.debug("below the logger's level");
  logger.info("one");
  logger.warn("two");
  logger.warn("three");
  const std::string page = prometheus::TextSerializer().Serialize(counter->Collect());
  EXPECT_THAT(page, HasSubstr("# TYPE ampd_log_messages_total counter"));
  EXPECT_THAT(page, HasSubstr("ampd_log_messages_total{level=\"debug\"} 0"));
  EXPECT_THAT(page, HasSubstr("ampd_log_messages_total{level=\"info\"} 1"));
  EXPECT_THAT(page, HasSubstr("ampd_log_messages_total{level=\"warning\"} 2"));
  EXPECT_THAT(page, HasSubstr("ampd_log_messages_total{level=\"error\"} 0"));
}

// Returns the whole HTTP answer, including its header.
std::string Get(int port, const std::string& path) {
  RawConnection connection({"127.0.0.1", port});
  connection.Send(absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n"));
  return connection.Read();
}

std::string Scrape(int port) { return Get(port, "/metrics"); }

// Returns the value of the sample with this name and these labels on the page; -1 if the page has no such sample.
double Value(const std::string& page, const std::string& sample) {
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, absl::StrCat(sample, " ")) && absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return -1;
}

int Count(const std::string& page, const std::string& part) {
  int count = 0;
  for (size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(MetricsPage, CountsWhatTheServerDoes) {
  const TemporaryFolder folder;
  const std::string binary = AMPD_BIN_DIR "/ampd-server";
  const e2e::ChildProcess program(
      {binary, "--allow-unauthenticated-loopback", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
       "--data-dir", folder.Path("data"), "--port-file", folder.Path("ports")},
      folder.Path("log"));
  const std::vector<std::string> ports =
      absl::StrSplit(e2e::AwaitFile(folder.Path("ports"), absl::Seconds(30)), '\n', absl::SkipEmpty());
  int metrics_port = 0;
  ASSERT_TRUE(ports.size() == 2 && absl::SimpleAtoi(ports[1], &metrics_port));
  ServerAccess server;
  server.Connect(absl::StrCat("127.0.0.1:", ports[0]));
  v1::ListEventsRequest request;
  request.set_id(server.CreateJob().id());
  v1::ListEventsResponse events;
  ASSERT_TRUE(server.jobs().ListEvents(Context().get(), request, &events).ok());
  // The scheduler has looked for a device for the submitted job, but no worker is connected.
  EXPECT_GT(Value(Scrape(metrics_port), "ampd_scheduler_cycles_total{result=\"no_capacity\"}"), 0);
  EXPECT_EQ(Value(Scrape(metrics_port), "ampd_scheduler_cycles_total{result=\"assigned\"}"), 0);
  EXPECT_GT(Value(Scrape(metrics_port), "ampd_scheduler_cycle_seconds_count"), 0);
  EXPECT_GT(Value(Scrape(metrics_port), "ampd_store_operation_seconds_count{operation=\"read\"}"), 0);
  // The server logs the message that it is listening only after it has begun to listen. So the first pages may be read
  // before this message is counted.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (Value(Scrape(metrics_port), "ampd_log_messages_total{level=\"info\"}") == 0) {
    ASSERT_LT(absl::Now(), deadline) << "no message was counted";
  }
}

TEST(MetricsPage, SlowClientsDelayNoScrapeAndHealthIsServedBesideIt) {
  TestServer server;
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int i = 0; i < 32; ++i) {
    slow.push_back(std::make_unique<RawConnection>(ListenAddress{"127.0.0.1", server.metrics_port()}));
    slow.back()->Send("GET /metrics HTTP/1.1\r\n");
  }
  EXPECT_THAT(Scrape(server.metrics_port()),
              testing::AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
                             HasSubstr("ampd_build_info{version="), HasSubstr("process_open_fds ")));
  EXPECT_THAT(Get(server.metrics_port(), "/healthz"), testing::EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(Get(server.metrics_port(), "/readyz"), testing::EndsWith("\r\n\r\nready\n"));
  EXPECT_THAT(Get(server.metrics_port(), "/"), testing::StartsWith("HTTP/1.0 404 "));
}

// Jobs are created while the page is read. On each page, the totals and the series of single jobs must be of the same
// jobs.
TEST(MetricsPage, AllNumbersOfAPageAreOfOneMoment) {
  TestServer server;
  std::atomic<bool> done = false;
  std::thread submitter([&] {
    for (int i = 0; i < 100; ++i) {
      server.CreateJob();
    }
    done = true;
  });
  int num_pages = 0;
  for (bool last = false; !last; ++num_pages) {
    last = done;
    const std::string page = Scrape(server.metrics_port());
    const double submitted = Value(page, "ampd_jobs_submitted_total{queue=\"default\"}");
    EXPECT_EQ(Value(page, "ampd_jobs{tenant=\"default\",queue=\"default\",state=\"queued\"}"), submitted);
    EXPECT_EQ(Value(page, "ampd_exported_jobs"), submitted);
    EXPECT_EQ(static_cast<double>(Count(page, "\nampd_job_info{")), submitted);
  }
  submitter.join();
  EXPECT_GT(num_pages, 1);
}

// Only the fastest of several scrapes counts, because other programs run on the test's machine too.
TEST(MetricsPage, TenThousandSeriesAreScrapedInUnder100Milliseconds) {
#if defined(AMPD_ASAN) || defined(AMPD_TSAN)
  constexpr absl::Duration kLimit = absl::Seconds(2);
#else
  constexpr absl::Duration kLimit = absl::Milliseconds(100);
#endif
  constexpr int kThreads = 8, kJobsPerThread = 450;  // Each waiting job has three series.
  TestServer server([](ServerConfig* config) { config->metrics_max_jobs = kThreads * kJobsPerThread; });
  std::vector<std::thread> submitters;
  for (int t = 0; t < kThreads; ++t) {
    submitters.emplace_back([&] {
      for (int i = 0; i < kJobsPerThread; ++i) {
        server.CreateJob();
      }
    });
  }
  for (std::thread& submitter : submitters) {
    submitter.join();
  }
  absl::Duration fastest = absl::InfiniteDuration();
  std::string page;
  for (int i = 0; i < 20; ++i) {
    const absl::Time start = absl::Now();
    page = Scrape(server.metrics_port());
    fastest = std::min(fastest, absl::Now() - start);
  }
  const int num_series = Count(page, "\nampd_");
  std::cout << num_series << " series in " << fastest << "\n";
  EXPECT_GE(num_series, 10'000);
  EXPECT_LT(fastest, kLimit);
}

}  // namespace
}  // namespace ampd::server
