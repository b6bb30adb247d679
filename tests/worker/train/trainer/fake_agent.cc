#include "tests/worker/train/trainer/fake_agent.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/ipc/unix_socket.h"

extern char** environ;

namespace ampd::train {
namespace {

constexpr int kWaitMs = 60'000;

// Waits until `path` exists. Checks again whenever something in its folder changes.
void AwaitFile(const std::filesystem::path& path) {
  const UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  inotify_add_watch(watch.get(), path.parent_path().c_str(), IN_CREATE | IN_MOVED_TO);
  while (!std::filesystem::exists(path)) {
    pollfd wait = {watch.get(), POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, kWaitMs), 1) << "no " << path;
    char events[4096];
    ASSERT_GT(read(watch.get(), events, sizeof(events)), 0);
  }
}

}  // namespace

FakeAgent::FakeAgent(const std::string& folder, const std::string& device, std::optional<int> steps_ahead)
    : folder_(folder) {
  std::filesystem::create_directories(folder);
  const char* programs = std::getenv("AMPD_PROGRAMS");  // Set by scripts/gpu-check, which puts the programs there.
  const std::string program = std::string(programs == nullptr ? AMPD_BIN_DIR : programs) + "/ampd-trainer";
  std::vector<std::string> arguments = {program, "--spawn-folder", folder, "--device", device, "--step-log"};
  if (steps_ahead.has_value()) {
    arguments.insert(arguments.end(), {"--steps-ahead", std::to_string(*steps_ahead)});
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, pointers.data(), environ), 0) << program;
}

FakeAgent::~FakeAgent() {
  if (pid_ > 0) {
    Kill(SIGKILL);
    WaitForExit();
  }
}

internal::Hello FakeAgent::Connect() {
  AwaitFile(folder_ + "/trainer.sock");
  auto socket = ConnectUnix(folder_ + "/trainer.sock");
  // The socket exists from the trainer's call of bind on, but refuses connections until the trainer calls listen.
  while (!socket.ok() && absl::IsUnavailable(socket.status())) {
    socket = ConnectUnix(folder_ + "/trainer.sock");
  }
  EXPECT_TRUE(socket.ok()) << socket.status();
  socket_ = *std::move(socket);
  order.clear();
  const auto payload = ReadFrame(socket_.get());
  internal::TrainerReport report;
  EXPECT_TRUE(payload.ok() && payload->has_value() && report.ParseFromString(**payload));
  EXPECT_TRUE(report.has_hello()) << report.ShortDebugString();
  return report.hello();
}

void FakeAgent::Send(const internal::TrainerCommand& command) { ASSERT_TRUE(WriteFrame(socket_.get(), command).ok()); }

void FakeAgent::Start(const internal::StartAttempt& start) {
  internal::TrainerCommand command;
  *command.mutable_start() = start;
  Send(command);
}

void FakeAgent::Leave(v1::Job::Desired desired, v1::Reason::Code reason) {
  internal::TrainerCommand command;
  command.mutable_leave()->set_desired(desired);
  command.mutable_leave()->set_reason(reason);
  Send(command);
}

void FakeAgent::Acknowledge(uint64_t sequence, bool outcome) {
  internal::TrainerCommand command;
  command.mutable_acknowledge()->set_sequence(sequence);
  command.mutable_acknowledge()->set_outcome(outcome);
  Send(command);
}

void FakeAgent::Kill(int signal) { kill(pid_, signal); }

bool FakeAgent::Read() {
  pollfd wait = {socket_.get(), POLLIN, 0};
  if (poll(&wait, 1, kWaitMs) != 1) {
    ADD_FAILURE() << "the trainer says nothing";
    return false;
  }
  const auto payload = ReadFrame(socket_.get());
  internal::TrainerReport report;
  if (!payload.ok() || !payload->has_value() || !report.ParseFromString(**payload)) {
    return false;
  }
  const char kind = report.has_telemetry() ? 't' : report.has_checkpoint() ? 'c' : report.has_outcome() ? 'o' : 0;
  if (kind != 0 && !order.ends_with(kind)) {
    order += kind;
  }
  if (report.has_telemetry()) {
    Take(report.telemetry());
  } else if (report.has_checkpoint()) {
    checkpoints.push_back(report.checkpoint());
    checkpoint_after[report.checkpoint().step()] = report.after_sequence();
  } else if (report.has_outcome()) {
    outcome = report.outcome();
    outcome_after = report.after_sequence();
  } else if (report.has_state()) {
    state = report.state();
  }
  return true;
}

void FakeAgent::ReadUntil(const std::function<bool()>& enough) {
  while (!enough()) {
    ASSERT_TRUE(Read()) << "the trainer closed the connection";
  }
}

void FakeAgent::Take(const v1::TelemetryBatch& batch) {
  const v1::StepColumns& columns = batch.steps();
  for (int i = 0; i < columns.step_size(); ++i) {
    ++sequences[columns.sequence(i)];
    sequence_of[columns.step(i)] = columns.sequence(i);
    steps[columns.step(i)] = {columns.loss(i), columns.grad_norm(i), columns.loss_scale(i), columns.skipped(i),
                              columns.learning_rate(i)};
    costs[columns.step(i)] = {columns.samples_per_second(i), columns.data_wait_seconds(i),
                              columns.flops_per_second_size() > i ? columns.flops_per_second(i) : 0};
    if (columns.phases_size() == 2) {
      Step& step = steps[columns.step(i)];
      step.generator_loss = columns.phases(1).loss(i);
      step.generator_grad_norm = columns.phases(1).grad_norm(i);
      step.generator_skipped = columns.phases(1).skipped(i);
      step.discriminator_skipped = columns.phases(0).skipped(i);
    }
  }
  for (const v1::EvalPoint& eval : batch.evals()) {
    ++sequences[eval.sequence()];
    evals.push_back(eval);
  }
  for (const v1::Event& event : batch.events()) {
    ++sequences[event.attempt_sequence()];
    events.push_back(event);
  }
  for (const v1::Sample& sample : batch.samples()) {
    ++sequences[sample.attempt_sequence()];
    samples.push_back(sample);
  }
}

int FakeAgent::WaitForExit() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace ampd::train
