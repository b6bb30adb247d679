#include "worker/train/report/trainer_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ampd::train {
namespace {

using testing::ContainsRegex;
using testing::ExitedWithCode;

constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TrainerLogDeathTest, AnAttemptInATrace_HasALineWithItsIds) {
  const auto log = [] {
    LogLine("before the attempt is known");
    JoinTrace(kTraceparent);
    LogLine("step 1:\nloss 2.5");
    std::exit(0);
  };
  EXPECT_EXIT(log(), ExitedWithCode(0),
              ContainsRegex("^[-0-9T:]+Z before the attempt is known\n"
                            "[-0-9T:]+Z the attempt belongs to a trace: trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
                            "span_id=[0-9a-f]{16} parent_span_id=00f067aa0ba902b7\n"
                            "[-0-9T:]+Z step 1: loss 2.5\n$"));
}

TEST(TrainerLogDeathTest, ThereIsNoSuchLine_IfTheTraceparentIsNotValid) {
  const auto log = [] {
    JoinTrace("");
    JoinTrace("00-forged\n trace_id=1");
    LogLine("step 1");
    std::exit(0);
  };
  EXPECT_EXIT(log(), ExitedWithCode(0), ContainsRegex("^[-0-9T:]+Z step 1\n$"));
}

}  // namespace
}  // namespace ampd::train
