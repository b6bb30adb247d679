#include "base/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "tests/base/http/broken_listener.h"
#include "tests/base/http/descriptor_shortage.h"
#include "tests/base/http/raw_connection.h"

namespace ampd::http {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kGetPage[] = "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

class ListenerTest : public testing::Test {
 protected:
  // Starts a listener with the routes "/page", "/echo", "/query" and "/slow"; the last one waits for `release_`.
  void Start(Listener::Options options = {}) {
    if (options.address.host.empty()) {
      options.address = {"127.0.0.1", 0};
    }
    options.router.Add("GET", "/page", [](const Request&) { return Text(200, "the page"); });
    options.router.Add("POST", "/echo", [](const Request& request) { return Text(200, request.body); });
    options.router.Add("GET", "/query", [](const Request& request) { return Text(200, request.query); });
    options.router.Add("GET", "/slow", [this](const Request&) {
      started_.Notify();
      release_.WaitForNotification();
      return Text(200, "at last");
    });
    address_ = options.address;
    auto started = Listener::Start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    listener_ = *std::move(started);
    address_.port = listener_->port();
  }

  // Sends a request on a new connection, and returns the whole answer.
  std::string Ask(const std::string& request) {
    RawConnection connection(address_);
    connection.Send(request);
    return connection.Read();
  }

  // Opens `count` connections. Each begins a request and does not finish it.
  std::vector<std::unique_ptr<RawConnection>> SlowConnections(int count) {
    std::vector<std::unique_ptr<RawConnection>> connections;
    for (int i = 0; i < count; ++i) {
      connections.push_back(std::make_unique<RawConnection>(address_));
      connections.back()->Send("GET /page HTTP/1.1\r\nHost: ");
    }
    return connections;
  }

  absl::Notification started_;
  absl::Notification release_;
  ListenAddress address_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, AnswersGetHeadUnknownPathsAndMethods) {
  Start();
  EXPECT_THAT(Ask(kGetPage),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 9\r\n"),
                    HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"), EndsWith("\r\n\r\nthe page\n")));
  EXPECT_THAT(Ask("HEAD /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 9\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Ask("GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("PUT /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(Ask("GET /query?a=b&c HTTP/1.0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.0 200 "), EndsWith("\r\n\r\na=b&c\n")));
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"),
              EndsWith("\r\n\r\nbody\n"));
}

TEST_F(ListenerTest, AConnectionIsKeptForMoreRequests) {
  Start();
  RawConnection connection(address_);
  for (int i = 0; i < 3; ++i) {
    connection.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(connection.Read("the page\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  // The client sends two requests without waiting. The answers must come in the order of the requests.
  connection.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connection.Read(),
              AllOf(HasSubstr("the page\nHTTP/1.1 404 "), EndsWith("there is nothing at this path\n")));
  EXPECT_EQ(listener_->counters().num_accepted, 1);
}

TEST_F(ListenerTest, ServesTheLoopbackOfIPv6) {
  Listener::Options options;
  options.address = {"::1", 0};
  if (!CheckBindable(options.address).ok()) {
    GTEST_SKIP() << "SKIPPED: this host has no IPv6 loopback";
  }
  Start(std::move(options));
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
}

TEST_F(ListenerTest, WhatIsTooLargeOrNoRequestIsRefused) {
  Start();
  EXPECT_THAT(Ask(absl::StrCat("GET /page HTTP/1.1\r\nHost: x\r\nX-Long: ", std::string(20'000, 'a'), "\r\n\r\n")),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask(absl::StrCat("GET /", std::string(20'000, 'a'), " HTTP/1.1\r\nHost: x\r\n\r\n")),
              StartsWith("HTTP/1.1 431 "));
  std::string many = "GET /page HTTP/1.1\r\n";
  for (int i = 0; i < 3000; ++i) {
    absl::StrAppend(&many, "X-", i, ": 1\r\n");
  }
  EXPECT_THAT(Ask(absl::StrCat(many, "\r\n")), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      Ask(absl::StrCat("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n", std::string(70'000, 'b'))),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask("\x16\x03\x01\x02 no http\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n")) << "others are served";
}

TEST_F(ListenerTest, SlowConnectionsDoNotDelayOthers) {
  Start();
  const auto slow = SlowConnections(100);
  const absl::Time start = absl::Now();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_EQ(listener_->counters().num_evicted, 0);
}

TEST_F(ListenerTest, BeyondTheBoundTheLongestWaitingMakesRoom) {
  Listener::Options options;
  options.max_connections = 8;
  Start(std::move(options));
  auto slow = SlowConnections(50);
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
  EXPECT_TRUE(slow.front()->IsClosed());
  EXPECT_FALSE(slow.back()->IsClosed(absl::Milliseconds(50))) << "a newer one stays";
  slow.back()->Send("x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(slow.back()->Read(), EndsWith("the page\n"));
  EXPECT_LE(listener_->counters().num_open, 8);
  EXPECT_GE(listener_->counters().num_evicted, 43);
}

TEST_F(ListenerTest, ARequestUnderWayIsNotClosedForANewOne) {
  Listener::Options options;
  options.max_connections = 1;
  Start(std::move(options));
  RawConnection served(address_);
  served.Send("GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  started_.WaitForNotification();
  RawConnection refused(address_);
  EXPECT_TRUE(refused.IsClosed());
  release_.Notify();
  EXPECT_THAT(served.Read(), EndsWith("at last\n"));
  EXPECT_EQ(listener_->counters().num_refused, 1);
}

TEST_F(ListenerTest, ARequestThatDoesNotEndIsClosedAfterItsDeadline) {
  Listener::Options options;
  options.request_deadline = absl::Milliseconds(200);
  options.idle_deadline = absl::Milliseconds(400);
  Start(std::move(options));
  RawConnection silent(address_);
  EXPECT_TRUE(silent.IsClosed());
  RawConnection head(address_);
  head.Send("GET /page HTTP/1.1\r\n");
  EXPECT_TRUE(head.IsClosed());
  RawConnection body(address_);
  body.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123");
  EXPECT_TRUE(body.IsClosed());
  RawConnection idle(address_);
  idle.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(idle.Read("the page\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(idle.IsClosed());
}

TEST_F(ListenerTest, HealsAfterDescriptorsHadRunOut) {
  Start();
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n")) << "all that the listener opens is open";
  // A connection needs two descriptors in this process: one for the test's end and one for the listener's end. Below,
  // only one is left. The test's end of the connection `waiting` takes it, so no descriptor is left for the listener's
  // end.
  RawConnection early(address_);
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
  {
    const DescriptorShortage shortage(/*left=*/1);
    RawConnection waiting(address_);
    waiting.Send(kGetPage);
    // The listener is out of descriptors. So it closes the early connection, which has not sent a request yet, and uses
    // that descriptor for this connection.
    EXPECT_THAT(waiting.Read(), EndsWith("the page\n"));
    EXPECT_TRUE(early.IsClosed());
  }
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
}

TEST_F(ListenerTest, EndsWithConnectionsOpenAndLetsThePortGo) {
  Start();
  auto slow = SlowConnections(3);
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
  Listener::Options same;
  same.address = address_;
  EXPECT_EQ(ReasonOf(Listener::Start(std::move(same)).status()), "ADDRESS_IN_USE");
  listener_.reset();
  EXPECT_TRUE(slow[0]->IsClosed());
  EXPECT_FALSE(Touch(address_));
}

TEST_F(ListenerTest, AProbeIsAcceptedAndCountsAsNoConnection) {
  Start();
  EXPECT_EQ(listener_->Probe(absl::Seconds(30)), ProbeResult::kAccepted);
  EXPECT_EQ(listener_->num_accepts(), 1);
  EXPECT_EQ(listener_->counters().num_accepted, 0);
}

TEST_F(ListenerTest, ABrokenListenerIsFoundAndAcceptsAgainAfterARestart) {
  Start();
  RawConnection open_before(address_);
  open_before.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(open_before.Read("the page\n"), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(BreakListener(getpid(), address_.port));
  EXPECT_EQ(listener_->Probe(absl::Milliseconds(200)), ProbeResult::kNotAccepted);
  ASSERT_TRUE(listener_->Restart().ok());
  EXPECT_EQ(listener_->Probe(absl::Seconds(30)), ProbeResult::kAccepted);
  EXPECT_THAT(Ask(kGetPage), EndsWith("the page\n"));
  open_before.Send(kGetPage);
  EXPECT_THAT(open_before.Read(), EndsWith("the page\n"));
}

}  // namespace
}  // namespace ampd::http
