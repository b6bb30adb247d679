#include "server/monitoring/listener_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

// Tests a ListenerWatch with two listeners. The test sets the results of their probes.
class ListenerWatchTest : public testing::Test {
 protected:
  WatchedListener Listener(const std::string& name, ProbeResult* result, int64_t* num_accepts) {
    return {.name = name,
            .num_accepts = [num_accepts] { return *num_accepts; },
            .probe =
                [num_accepts, result] {
                  *num_accepts += *result == ProbeResult::kAccepted ? 1 : 0;
                  return *result;
                },
            .restart =
                [this] {
                  ++num_restarts_;
                  return restarted_;
                }};
  }
  void SetUp() override {
    ListenerWatch::Options options;
    options.listeners.push_back(Listener("127.0.0.1:7", &first_, &first_accepts_));
    options.listeners.push_back(Listener("the socket /s", &second_, &second_accepts_));
    options.has_descriptors = [this] { return has_descriptors_; };
    options.log = [this](bool is_good, const std::string& line) { absl::StrAppend(&log_, is_good, " ", line, "\n"); };
    watch_ = std::make_unique<ListenerWatch>(std::move(options));
  }
  // Calls Look `num_times` times, and returns the first error.
  absl::Status Look(int num_times) {
    absl::Status result = absl::OkStatus();
    for (int i = 0; i < num_times && result.ok(); ++i) {
      result = watch_->Look();
    }
    return result;
  }

  ProbeResult first_ = ProbeResult::kAccepted;
  ProbeResult second_ = ProbeResult::kAccepted;
  int64_t first_accepts_ = 0;
  int64_t second_accepts_ = 0;
  int num_restarts_ = 0;
  absl::Status restarted_ = absl::OkStatus();
  bool has_descriptors_ = true;
  std::string log_;
  std::unique_ptr<ListenerWatch> watch_;
};

TEST_F(ListenerWatchTest, AListenerThatAcceptsIsNotStartedAgain) {
  EXPECT_TRUE(Look(100).ok());
  EXPECT_TRUE(watch_->AllAccept());
  EXPECT_EQ(watch_->WhatFails(), "");
  EXPECT_EQ(log_, "");
}

TEST_F(ListenerWatchTest, AListenerThatAcceptsNothingIsNamedAndStartedAgain) {
  ASSERT_TRUE(Look(1).ok());
  second_ = first_ = ProbeResult::kNotAccepted;
  ASSERT_TRUE(Look(2).ok());
  EXPECT_TRUE(watch_->AllAccept()) << "one slow answer is no failure";
  first_ = ProbeResult::kUnknown;
  ASSERT_TRUE(Look(1).ok());
  EXPECT_FALSE(watch_->AllAccept());
  EXPECT_EQ(watch_->WhatFails(), "the socket /s accepts no connections\n");
  EXPECT_EQ(num_restarts_, 1);
  second_ = ProbeResult::kAccepted;
  ASSERT_TRUE(Look(1).ok());
  EXPECT_TRUE(watch_->AllAccept());
  EXPECT_EQ(log_,
            "0 the socket /s accepts no connections, not even those of the server itself\n"
            "0 the socket /s was started again\n"
            "1 the socket /s accepts connections again\n");
}

TEST_F(ListenerWatchTest, AListenerThatStaysDeadEndsTheServer) {
  ASSERT_TRUE(Look(1).ok());
  first_ = second_ = ProbeResult::kNotAccepted;
  second_ = ProbeResult::kUnknown;
  EXPECT_TRUE(Look(8).ok());
  EXPECT_EQ(num_restarts_, 2);
  const absl::Status ended = Look(1);
  EXPECT_EQ(ReasonOf(ended), "LISTENER_IS_DEAD");
  EXPECT_THAT(std::string(ended.message()), HasSubstr("127.0.0.1:7 accepts no connections"));
}

TEST_F(ListenerWatchTest, AListenerThatCannotBeStartedAgainEndsTheServer) {
  ASSERT_TRUE(Look(1).ok());
  restarted_ = absl::DeadlineExceededError("its thread is stuck");
  first_ = second_ = ProbeResult::kNotAccepted;
  const absl::Status ended = Look(3);
  EXPECT_EQ(ReasonOf(ended), "LISTENER_IS_DEAD");
  EXPECT_THAT(std::string(ended.message()), HasSubstr("its thread is stuck"));
}

TEST_F(ListenerWatchTest, WhereNoProbeEverGotThroughTheServerLives) {
  first_ = ProbeResult::kNotAccepted;  // A firewall that drops the host's connections to itself has this effect.
  second_ = ProbeResult::kUnknown;
  EXPECT_TRUE(Look(100).ok());
  EXPECT_EQ(num_restarts_, 0);
  EXPECT_FALSE(watch_->AllAccept());
}

TEST_F(ListenerWatchTest, WithoutDescriptorsNothingIsConcluded) {
  ASSERT_TRUE(Look(1).ok());
  has_descriptors_ = false;
  first_ = second_ = ProbeResult::kNotAccepted;
  EXPECT_TRUE(Look(100).ok());
  EXPECT_TRUE(watch_->AllAccept());
}

TEST_F(ListenerWatchTest, AFloodThatKeepsProbesOutIsNoFailure) {
  ASSERT_TRUE(Look(1).ok());
  first_ = second_ = ProbeResult::kNotAccepted;
  for (int i = 0; i < 20; ++i) {
    first_accepts_ += 1'000;
    second_accepts_ += 1;
    ASSERT_TRUE(Look(1).ok());
  }
  EXPECT_TRUE(watch_->AllAccept());
}

}  // namespace
}  // namespace ampd::server
