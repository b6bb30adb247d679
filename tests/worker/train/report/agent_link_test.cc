#include "worker/train/report/agent_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/ipc/frames.h"
#include "base/ipc/unix_socket.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;

// The agent's end of one connection. If nothing comes within a minute, the test fails.
class Agent {
 public:
  explicit Agent(const std::string& folder) : socket_(ConnectUnix(folder + "/trainer.sock").value()) {}

  // Reads the next report and returns it as a short text: "hello", "state 3", "step 7", "checkpoint 7 after 2" or
  // "outcome after 2". Returns "closed" at the end of the stream.
  std::string Read() {
    pollfd wait = {socket_.get(), POLLIN, 0};
    if (poll(&wait, 1, 60'000) != 1) {
      return "nothing";
    }
    const auto payload = ReadFrame(socket_.get());
    internal::TrainerReport report;
    if (!payload.ok() || !payload->has_value() || !report.ParseFromString(**payload)) {
      return "closed";
    }
    switch (report.kind_case()) {
      case internal::TrainerReport::kHello:
        return absl::StrCat("hello", report.hello().has_key() ? " of " : "", report.hello().key().job_id());
      case internal::TrainerReport::kState:
        return absl::StrCat("state ", report.state().step());
      case internal::TrainerReport::kTelemetry:
        return absl::StrCat("step ", report.telemetry().steps().step(0));
      case internal::TrainerReport::kCheckpoint:
        return absl::StrCat("checkpoint ", report.checkpoint().step(), " after ", report.after_sequence());
      case internal::TrainerReport::kOutcome:
        return absl::StrCat("outcome after ", report.after_sequence());
      default:
        return "?";
    }
  }
  std::vector<std::string> Read(int num_reports) {
    std::vector<std::string> reports;
    for (int i = 0; i < num_reports; ++i) {
      reports.push_back(Read());
    }
    return reports;
  }

  void Send(const internal::TrainerCommand& command) { ASSERT_TRUE(WriteFrame(socket_.get(), command).ok()); }
  void Start(const std::string& job) {
    internal::TrainerCommand command;
    command.mutable_start()->mutable_key()->set_job_id(job);
    Send(command);
  }
  void Leave(v1::Job::Desired desired) {
    internal::TrainerCommand command;
    command.mutable_leave()->set_desired(desired);
    Send(command);
  }
  void SetLossScale(uint64_t number, double scale) {
    internal::TrainerCommand command;
    command.mutable_live_loss_scale()->set_number(number);
    command.mutable_live_loss_scale()->set_scale(scale);
    Send(command);
  }
  void Acknowledge(uint64_t sequence, int64_t checkpoint_step, bool outcome = false) {
    internal::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(sequence);
    command.mutable_acknowledge()->add_checkpoint_steps(checkpoint_step);
    command.mutable_acknowledge()->set_outcome(outcome);
    Send(command);
  }

 private:
  const UniqueFd socket_;
};

class AgentLinkTest : public testing::Test {
 protected:
  AgentLinkTest() : folder_(MakeFolder()), outbox_({.spill_path = folder_ + "/telemetry"}), link_(folder_, outbox_) {
    EXPECT_TRUE(link_.Start().ok());
  }
  ~AgentLinkTest() override { std::filesystem::remove_all(folder_); }

  void AddStep(int64_t step) {
    v1::TelemetryBatch record;
    record.mutable_steps()->add_step(step);
    record.mutable_steps()->add_loss(1);
    EXPECT_TRUE(outbox_.Add(record, absl::InfiniteDuration()).ok());
  }
  void ReportState(int64_t step) {
    internal::TrainerState state;
    state.set_step(step);
    link_.ReportState(state);
  }
  void ReportCheckpoint(int64_t step) {
    v1::Checkpoint checkpoint;
    checkpoint.set_step(step);
    link_.ReportCheckpoint(checkpoint, outbox_.last_sequence());
  }

  static std::string MakeFolder() {
    std::string pattern = testing::TempDir() + "/agent-link-XXXXXX";
    return mkdtemp(pattern.data());
  }

  const std::string folder_;
  TelemetryOutbox outbox_;
  AgentLink link_;
};

TEST_F(AgentLinkTest, FirstStart_BindsAndAnotherClosesTheConnection) {
  Agent agent(folder_);
  EXPECT_EQ(agent.Read(), "hello");
  agent.Start("job");
  EXPECT_EQ(link_.WaitForStart(absl::InfiniteDuration())->key().job_id(), "job");
  agent.Start("job");
  agent.Start("other");
  EXPECT_EQ(agent.Read(), "closed");
  EXPECT_EQ(Agent(folder_).Read(), "hello of job");
}

TEST_F(AgentLinkTest, NewConnection_ReceivesWhatIsNotAcknowledgedAgain) {
  AddStep(1);
  ReportCheckpoint(1);
  AddStep(2);
  ReportCheckpoint(2);
  ReportState(2);
  Agent first(folder_);
  EXPECT_THAT(first.Read(5), ElementsAre("hello", "state 2", "checkpoint 1 after 1", "checkpoint 2 after 2", "step 1"));
  AddStep(3);
  EXPECT_EQ(first.Read(), "step 3");
  first.Acknowledge(/*sequence=*/2, /*checkpoint_step=*/1);
  first.Start("job");
  EXPECT_TRUE(link_.WaitForStart(absl::InfiniteDuration()).has_value());
  Agent second(folder_);
  EXPECT_THAT(second.Read(4), ElementsAre("hello of job", "state 2", "checkpoint 2 after 0", "step 3"));
  EXPECT_EQ(first.Read(), "closed");
}

TEST_F(AgentLinkTest, Outcome_IsSentAgainUntilItIsAcknowledged) {
  AddStep(1);
  bool is_acknowledged = false;
  std::thread trainer([&] { is_acknowledged = link_.ReportOutcome({}, SystemClock().SinceBoot() + absl::Minutes(1)); });
  Agent first(folder_);
  std::string last;
  while (last != "outcome after 1") {
    last = first.Read();
    ASSERT_NE(last, "closed");
  }
  Agent second(folder_);
  while ((last = second.Read()) != "outcome after 1") {
    ASSERT_NE(last, "closed");
  }
  second.Acknowledge(1, /*checkpoint_step=*/0, /*outcome=*/true);
  trainer.join();
  EXPECT_TRUE(is_acknowledged);
}

// The name of a file may have bytes that are not UTF-8, and a message with such a text could not be read.
TEST_F(AgentLinkTest, OutcomeWhoseMessageIsNotUtf8_IsReadable) {
  v1::Outcome outcome;
  outcome.set_message("can't open caf\xe9.bin");
  EXPECT_FALSE(link_.ReportOutcome(outcome, absl::ZeroDuration())) << "nobody acknowledges it";
  Agent agent(folder_);
  EXPECT_THAT(agent.Read(2), ElementsAre("hello", "outcome after 0"));
}

TEST_F(AgentLinkTest, DeviceErrorThatIsLongAndNotUtf8_IsReadable) {
  const std::string folder = MakeFolder();
  TelemetryOutbox outbox({.spill_path = folder + "/telemetry"});
  AgentLink link(folder, outbox);
  link.SetDeviceError("can't load caf\xe9.so: " + std::string(9000, 'x'));
  EXPECT_TRUE(link.Start().ok());
  EXPECT_EQ(Agent(folder).Read(), "hello");
  std::filesystem::remove_all(folder);
}

TEST_F(AgentLinkTest, Leave_ACancelOverridesAPauseAndNothingACancel) {
  Agent agent(folder_);
  EXPECT_EQ(agent.Read(), "hello");
  agent.Leave(v1::Job::PAUSE);
  agent.Leave(v1::Job::CANCEL);
  agent.Leave(v1::Job::PAUSE);
  agent.Start("job");
  EXPECT_TRUE(link_.WaitForStart(absl::InfiniteDuration()).has_value());
  EXPECT_EQ(link_.leave()->desired(), v1::Job::CANCEL);
}

TEST_F(AgentLinkTest, LiveLossScale_IsTheOneWithTheHighestNumber) {
  Agent agent(folder_);
  EXPECT_EQ(agent.Read(), "hello");
  agent.SetLossScale(1, 64);
  agent.SetLossScale(3, 32);
  agent.SetLossScale(3, 16);  // The number 3 was sent before, so the link must ignore it.
  agent.SetLossScale(2, 8);
  agent.Start("job");
  EXPECT_TRUE(link_.WaitForStart(absl::InfiniteDuration()).has_value());
  EXPECT_EQ(link_.live_loss_scale().number(), 3u);
  EXPECT_EQ(link_.live_loss_scale().scale(), 32);
}

TEST_F(AgentLinkTest, GradientRequest_CountsOncePerNumber) {
  Agent agent(folder_);
  EXPECT_EQ(agent.Read(), "hello");
  internal::TrainerCommand request;
  request.mutable_sample_gradients()->set_number(5);
  agent.Send(request);
  agent.Send(request);
  agent.Start("job");
  EXPECT_TRUE(link_.WaitForStart(absl::InfiniteDuration()).has_value());
  EXPECT_TRUE(link_.TakeGradientRequest());
  EXPECT_FALSE(link_.TakeGradientRequest());
}

TEST_F(AgentLinkTest, ProfileRequest_IsTakenOnceAndANewerOneReplacesIt) {
  Agent agent(folder_);
  EXPECT_EQ(agent.Read(), "hello");
  internal::TrainerCommand request;
  for (const auto& [number, steps] : {std::pair(1, 5), {2, 7}, {2, 7}, {1, 5}}) {
    request.mutable_profile()->set_number(static_cast<uint64_t>(number));
    request.mutable_profile()->set_num_steps(steps);
    agent.Send(request);
  }
  agent.Start("job");
  EXPECT_TRUE(link_.WaitForStart(absl::InfiniteDuration()).has_value());
  EXPECT_EQ(link_.TakeProfileRequest(), 7);
  EXPECT_EQ(link_.TakeProfileRequest(), 0);
}

TEST_F(AgentLinkTest, Stop_EndsTheWaitForAStart) {
  internal::LeaveAttempt leave;
  leave.set_desired(v1::Job::PAUSE);
  link_.Stop(leave);
  EXPECT_FALSE(link_.WaitForStart(absl::InfiniteDuration()).has_value());
  EXPECT_EQ(link_.leave()->desired(), v1::Job::PAUSE);
}

}  // namespace
}  // namespace ampd::train
