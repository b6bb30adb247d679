#include "server/monitoring/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/log.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
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

TEST_F(ChangeLogTest, LinesAboutAJobHaveItsTrace) {
  internal::JobRecord record;
  record.mutable_job()->set_id("j-a");
  record.mutable_job()->set_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  record.set_parent_span_id("b7ad6b7169203331");
  testing::internal::CaptureStderr();
  const std::string ids = " trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7";
  v1::Event event;
  event.set_kind(v1::Event::CREATED);
  event.set_to_state(v1::Job::QUEUED);
  changes_.JobMoved(record, event);
  event.set_kind(v1::Event::STATE_CHANGED);
  event.set_from_state(v1::Job::QUEUED);
  event.set_to_state(v1::Job::STARTING);
  changes_.JobMoved(record, event);
  changes_.JobDeleted("j-a", record.job().traceparent());
  record.mutable_job()->clear_traceparent();
  record.clear_parent_span_id();
  changes_.JobMoved(record, event);
  const std::vector<std::string> lines = absl::StrSplit(testing::internal::GetCapturedStderr(), '\n');
  EXPECT_THAT(lines, ElementsAre(EndsWith(" to=QUEUED" + ids + " parent_span_id=b7ad6b7169203331"),
                                 EndsWith(" to=STARTING" + ids), EndsWith("job deleted job_id=j-a" + ids),
                                 EndsWith(" to=STARTING"), ""));
}

}  // namespace
}  // namespace ampd::server
