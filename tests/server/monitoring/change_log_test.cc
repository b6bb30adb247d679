#include "server/monitoring/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include "base/log.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ChangeLogTest : public testing::Test {
 protected:
  void SetUp() override { StartLogging(LogFormat::kText, spdlog::level::info, {sink_}); }

  static internal::WorkerRecord Record(bool lost) {
    internal::WorkerRecord record;
    record.mutable_worker()->set_name("w1");
    record.set_lost(lost);
    return record;
  }

  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(10);
  ChangeLog changes_;
};

TEST_F(ChangeLogTest, WorkerThatIsLostAndReturns_IsLoggedAsBack) {
  changes_.WorkerChanged(Record(/*lost=*/false));
  changes_.WorkerChanged(Record(/*lost=*/true));
  changes_.WorkerChanged(Record(/*lost=*/false));
  EXPECT_THAT(sink_->last_formatted(),
              ElementsAre(HasSubstr("worker registered"), HasSubstr("worker lost"), HasSubstr("worker is back")));
}

TEST_F(ChangeLogTest, WorkerThatReturnsAfterItsRemoval_IsLoggedAsRegistered) {
  changes_.WorkerChanged(Record(/*lost=*/false));
  changes_.WorkerChanged(Record(/*lost=*/true));
  changes_.WorkerRemoved("w1");
  changes_.WorkerChanged(Record(/*lost=*/false));
  EXPECT_THAT(sink_->last_formatted(),
              ElementsAre(HasSubstr("worker registered"), HasSubstr("worker lost"), HasSubstr("worker registered")));
}

}  // namespace
}  // namespace ampd::server
