// The page that a scraper gets of the ampd-server program: that what counts is wired to what happens.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/listen_address.h"
#include "server/log_counter.h"
#include "server/metrics_listener.h"
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

std::string Scrape(int port) {
  const UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_TRUE(WriteAll(connection.get(), "GET /metrics HTTP/1.0\r\n\r\n").ok());
  std::string page;
  char buffer[1 << 16];
  for (ssize_t size = 0; (size = read(connection.get(), buffer, sizeof(buffer))) > 0;) {
    page.append(buffer, static_cast<size_t>(size));
  }
  return page;
}

TEST(MetricsListenerTest, ServesWhileItLivesAndNobodyElseHasThePort) {
  const auto counter = std::make_shared<LogCounter>();
  auto listener = MetricsListener::Start({"127.0.0.1", 0}, {counter, nullptr});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const ListenAddress address{"127.0.0.1", (*listener)->port()};
  EXPECT_THAT(Scrape(address.port), HasSubstr("ampd_log_messages_total{level=\"info\"} 0"));
  EXPECT_EQ(ReasonOf(MetricsListener::Start(address, {counter}).status()), "ADDRESS_IN_USE");
  listener->reset();
  EXPECT_FALSE(Touch(address));
}

// Of the sample that is written so on the page; -1 when there is none.
double Value(const std::string& page, const std::string& sample) {
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, absl::StrCat(sample, " ")) && absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return -1;
}

TEST(MetricsPage, CountsWhatTheServerDoes) {
  const TemporaryFolder folder;
  const std::string binary = AMPD_BIN_DIR "/ampd-server";
  const e2e::ChildProcess program({binary, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir",
                                   folder.Path("data"), "--port-file", folder.Path("ports")},
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
  // When it was made, the server looked for a worker, and there is none.
  EXPECT_GT(Value(Scrape(metrics_port), "ampd_scheduler_cycles_total{result=\"no_capacity\"}"), 0);
  EXPECT_EQ(Value(Scrape(metrics_port), "ampd_scheduler_cycles_total{result=\"assigned\"}"), 0);
  EXPECT_GT(Value(Scrape(metrics_port), "ampd_scheduler_cycle_seconds_count"), 0);
  EXPECT_GT(Value(Scrape(metrics_port), "ampd_store_operation_seconds_count{operation=\"read\"}"), 0);
  // It says that it listens right after it does.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (Value(Scrape(metrics_port), "ampd_log_messages_total{level=\"info\"}") == 0) {
    ASSERT_LT(absl::Now(), deadline) << "no message was counted";
  }
}

}  // namespace
}  // namespace ampd::server
