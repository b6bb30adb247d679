#include "server/rpc/file_relay.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/simulated_clock.h"

namespace ampd::server {
namespace {

using Taken = FileRelay::Taken;

class FileRelayTest : public testing::Test {
 protected:
  std::shared_ptr<FileRelay> Open(const std::string& worker = "w1") {
    return *relays_.Open(worker, v1::FileRequest(), [this] { ++num_calls_; });
  }

  SimulatedClock clock_;
  FileRelays relays_{&clock_};
  int num_calls_ = 0;
};

TEST_F(FileRelayTest, TheWorkersNextPieceIsDue_WhenTheClientHasTakenTheOneBefore) {
  const auto relay = Open();
  int num_taken = 0;
  ASSERT_TRUE(relay->Begin([&] { ++num_taken; }, [] {}));
  EXPECT_EQ(relay->Take().kind, Taken::kNothingYet);
  EXPECT_TRUE(relay->Put("one", /*is_last=*/false));
  EXPECT_EQ(num_calls_, 1);
  EXPECT_EQ(num_taken, 0);
  EXPECT_EQ(relay->Take().piece, "one");
  EXPECT_EQ(num_taken, 1);
  EXPECT_TRUE(relay->Put("two", /*is_last=*/true));
  EXPECT_EQ(relay->Take().piece, "two");
  EXPECT_EQ(num_taken, 1) << "nothing follows";
  const Taken end = relay->Take();
  EXPECT_EQ(end.kind, Taken::kEnd);
  EXPECT_TRUE(end.status.ok());
}

TEST_F(FileRelayTest, AClientThatLeavesWithTheWholeFile_EndsNothing) {
  for (const bool takes_all : {true, false}) {
    const auto relay = Open();
    int num_left = 0;
    ASSERT_TRUE(relay->Begin([] {}, [&] { ++num_left; }));
    EXPECT_TRUE(relay->Put("all", /*is_last=*/true));
    if (takes_all) {
      EXPECT_EQ(relay->Take().piece, "all");
    }
    relay->Leave();
    EXPECT_EQ(num_left, takes_all ? 0 : 1);
  }
}

TEST_F(FileRelayTest, ASilentWorker_EndsTheFileAfterTheLimit) {
  const auto unanswered = Open();
  const auto begun = Open();
  ASSERT_TRUE(begun->Begin([] {}, [] {}));
  clock_.Advance(FileRelay::kPieceLimit);
  EXPECT_EQ(unanswered->Take().kind, Taken::kNothingYet);
  clock_.Advance(absl::Seconds(1));
  for (const auto& relay : {unanswered, begun}) {
    const Taken taken = relay->Take();
    EXPECT_EQ(taken.kind, Taken::kEnd);
    EXPECT_EQ(ReasonOf(taken.status), "WORKER_UNREACHABLE");
  }
  const auto slow = Open();
  ASSERT_TRUE(slow->Begin([] {}, [] {}));
  EXPECT_TRUE(slow->Put("one", /*is_last=*/false));
  clock_.Advance(2 * FileRelay::kPieceLimit);
  EXPECT_EQ(slow->Take().piece, "one") << "the client was slow, not the worker";
  EXPECT_EQ(slow->Take().kind, Taken::kNothingYet);
}

TEST_F(FileRelayTest, AClientThatLeft_TakesNothingMore) {
  const auto relay = Open();
  int num_left = 0;
  ASSERT_TRUE(relay->Begin([] {}, [&] { ++num_left; }));
  EXPECT_FALSE(relay->Begin([] {}, [] {})) << "another call sends the file";
  relay->Leave();
  EXPECT_EQ(num_left, 1);
  EXPECT_FALSE(relay->Put("one", /*is_last=*/false));
}

TEST_F(FileRelayTest, ADirective_RequestsTheWorkersFilesThatItDoesNotSendYet) {
  const auto first = Open();
  const auto second = Open();
  const auto of_other = Open("w2");
  ASSERT_TRUE(second->Begin([] {}, [] {}));
  v1::WorkerDirective directive;
  relays_.AddTo("w1", &directive);
  ASSERT_EQ(directive.send_files_size(), 1);
  EXPECT_EQ(directive.send_files(0).transfer(), first->request().transfer());
  EXPECT_EQ(relays_.Find(first->request().transfer()), first);
  EXPECT_EQ(relays_.Find("guessed"), nullptr);
}

TEST_F(FileRelayTest, ThereIsALimit_AndRelaysThatEndedDoNotCount) {
  std::vector<std::shared_ptr<FileRelay>> open;
  for (size_t i = 0; i < FileRelays::kMaxRelays; ++i) {
    open.push_back(Open());
  }
  EXPECT_EQ(ReasonOf(relays_.Open("w1", v1::FileRequest(), [] {}).status()), "SERVER_BUSY");
  open.pop_back();
  EXPECT_TRUE(relays_.Open("w1", v1::FileRequest(), [] {}).ok());
}

}  // namespace
}  // namespace ampd::server
