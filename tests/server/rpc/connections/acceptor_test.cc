#include "server/rpc/connections/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "tests/base/http/broken_listener.h"
#include "tests/base/http/descriptor_shortage.h"
#include "tests/base/http/raw_connection.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

constexpr char kGreeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class AcceptorTest : public testing::Test {
 protected:
  void Start(int max_connections) {
    Acceptor::Options options;
    options.address = {"127.0.0.1", 0};
    options.max_connections = max_connections;
    options.on_connection = [this](UniqueFd connection) {
      absl::MutexLock lock(&mutex_);
      taken_.push_back(std::move(connection));
    };
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      log_ += line + "\n";
    };
    acceptor_ = *Acceptor::Bind(std::move(options));
    acceptor_->Start();
  }

  std::unique_ptr<RawConnection> Connect() { return std::make_unique<RawConnection>(acceptor_->address()); }

  // Waits until the acceptor has passed on `count` connections.
  void AwaitTaken(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto has = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_.size() >= count; };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&has), absl::Seconds(30)));
  }
  // Reads from a connection that the acceptor has passed on, in the way a server does.
  void ReadFrom(size_t index, size_t num_bytes) {
    absl::MutexLock lock(&mutex_);
    std::string buffer(num_bytes, '\0');
    for (size_t done = 0; done < num_bytes;) {
      const ssize_t size = read(taken_[index].get(), buffer.data(), num_bytes - done);
      done += size > 0 ? static_cast<size_t>(size) : 0;
    }
  }
  void CloseTaken(size_t index) {
    absl::MutexLock lock(&mutex_);
    taken_[index].Reset();
  }

  absl::Mutex mutex_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mutex_);
  std::string log_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, ABoundHasRoomForTheFilesOfTheServer) {
  EXPECT_EQ(MaxConnections(1024), 768);
  EXPECT_EQ(MaxConnections(256), 192);
  EXPECT_EQ(MaxConnections(20'000), 20'000 - 1024);
  EXPECT_EQ(MaxConnections(10), 16) << "too few anyway";
}

TEST_F(AcceptorTest, WhenFullTheOldestThatMadeNoCallMakesRoom) {
  Start(3);
  auto calling = Connect();
  AwaitTaken(1);
  calling->Send(std::string(500, 'c'));
  ReadFrom(0, 500);
  auto silent = Connect();
  silent->Send(kGreeting);
  auto newer = Connect();
  AwaitTaken(3);
  auto next = Connect();
  AwaitTaken(4);
  EXPECT_TRUE(silent->IsClosed());
  EXPECT_FALSE(calling->IsClosed(absl::ZeroDuration()));
  EXPECT_FALSE(newer->IsClosed(absl::ZeroDuration()));
  EXPECT_EQ(acceptor_->counters().num_evicted, 1);
  EXPECT_EQ(acceptor_->counters().num_refused, 0);
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(log_, HasSubstr("there are 3 connections, as many as the server takes; new ones take the place"));
}

TEST_F(AcceptorTest, WhenAllMakeCallsANewOneIsClosed) {
  Start(2);
  auto first = Connect();
  auto second = Connect();
  AwaitTaken(2);
  for (const auto& connection : {first.get(), second.get()}) {
    connection->Send(std::string(500, 'c'));
  }
  ReadFrom(0, 500);
  ReadFrom(1, 500);
  auto refused = Connect();
  EXPECT_TRUE(refused->IsClosed());
  EXPECT_EQ(acceptor_->counters().num_refused, 1);
  // When the receiver closes a connection, the connection must no longer count, although the acceptor is not notified.
  CloseTaken(0);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (acceptor_->counters().num_accepted < 3 && absl::Now() < deadline) {
    auto next = Connect();
    if (!next->IsClosed(absl::Milliseconds(100))) {
      break;
    }
  }
  EXPECT_EQ(acceptor_->counters().num_accepted, 3);
}

TEST_F(AcceptorTest, AcceptsAgainAfterDescriptorsHadRunOut) {
  Start(100);
  auto first = Connect();
  AwaitTaken(1);
  {
    // The socket of the client `waiting` takes the last free descriptor, so the acceptor has only its spare one. The
    // acceptor uses it to evict `first`: it closes the spare descriptor, and shuts `first` down through a duplicate of
    // its descriptor, which needs the freed number.
    const DescriptorShortage shortage(/*left=*/1);
    auto waiting = Connect();
    EXPECT_TRUE(first->IsClosed()) << "it made no call, and makes room";
    CloseTaken(0);  // gRPC would close it, too.
    AwaitTaken(2);
  }
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(log_, HasSubstr("no file descriptor is left for a new connection"));
}

TEST_F(AcceptorTest, AnAddressInUseIsSaid) {
  Start(1);
  Acceptor::Options options;
  options.address = acceptor_->address();
  EXPECT_EQ(ReasonOf(Acceptor::Bind(std::move(options)).status()), "ADDRESS_IN_USE");
  const ListenAddress address = acceptor_->address();
  acceptor_.reset();
  EXPECT_FALSE(Touch(address));
}

TEST_F(AcceptorTest, AProbeIsAcceptedAndCountsAsNoConnection) {
  Start(1);
  auto only = Connect();
  AwaitTaken(1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(acceptor_->Probe(absl::Seconds(30)), ProbeResult::kAccepted);
  }
  EXPECT_EQ(acceptor_->num_accepts(), 6);
  const Acceptor::Counters counters = acceptor_->counters();
  EXPECT_EQ(counters.num_accepted, 1);
  EXPECT_EQ(counters.num_open, 1);
  EXPECT_EQ(counters.num_refused + counters.num_evicted, 0);
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(taken_.size(), 1u);
  EXPECT_EQ(log_, "");
}

TEST_F(AcceptorTest, ABrokenListenerIsFoundAndAcceptsAgainAfterARestart) {
  Start(10);
  auto before = Connect();
  AwaitTaken(1);
  ASSERT_TRUE(BreakListener(getpid(), acceptor_->address().port));
  EXPECT_EQ(acceptor_->Probe(absl::Milliseconds(200)), ProbeResult::kNotAccepted);
  ASSERT_TRUE(acceptor_->Restart().ok());
  EXPECT_EQ(acceptor_->Probe(absl::Seconds(30)), ProbeResult::kAccepted);
  auto after = Connect();
  AwaitTaken(2);
  EXPECT_FALSE(before->IsClosed(absl::Milliseconds(1))) << "open connections live on";
}

TEST_F(AcceptorTest, AStuckThreadIsFoundAndReportedByARestart) {
  Start(10);
  auto first = Connect();
  AwaitTaken(1);
  mutex_.Lock();  // on_connection will wait for this lock.
  auto second = Connect();
  while (acceptor_->num_accepts() < 2) {
    std::this_thread::yield();
  }
  EXPECT_EQ(acceptor_->Probe(absl::Milliseconds(200)), ProbeResult::kNotAccepted);
  EXPECT_TRUE(absl::IsDeadlineExceeded(acceptor_->Restart()));
  mutex_.Unlock();
}

}  // namespace
}  // namespace ampd::server
