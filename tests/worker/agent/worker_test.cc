// The real ampd-worker and ampd-shim with scripted trainers, against a fake server.
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ampd/internal/trainer.pb.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/agent/fake_server.h"

extern char** environ;

namespace ampd::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr absl::Duration kLease = absl::Milliseconds(400);

struct Step {
  int pid = 0;
  int64_t number = 0;
  int64_t boot_nanos = 0;
};

class Worker : public testing::Test {
 protected:
  Worker() : server_(kLease) {
    std::string name = testing::TempDir() + "/ampd-worker-XXXXXX";
    state_ = mkdtemp(name.data());
    environment_ = absl::StrCat("AMPD_TEST_FOLDER=", state_);
  }

  ~Worker() override {
    Kill(SIGKILL);
    for (const ProcessIdentity& identity : Survivors()) {
      if (auto process = ProcessHandle::Open(identity); process.ok()) {
        process->Signal(SIGKILL).IgnoreError();
      }
    }
    std::error_code error;
    fs::remove_all(state_, error);
  }

  void StartWorker(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {std::string(AMPD_BIN_DIR) + "/ampd-worker",
                                          "--server",
                                          server_.address(),
                                          "--name",
                                          "w1",
                                          "--state-dir",
                                          state_,
                                          "--trainer",
                                          std::string(AMPD_BIN_DIR) + "/ampd-scripted-trainer",
                                          "--device",
                                          "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    // Everything below inherits this, so that the test can count what is left.
    std::vector<char*> env;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      env.push_back(*entry);
    }
    env.push_back(environment_.data());
    env.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&worker_, argv[0], nullptr, nullptr, argv.data(), env.data()), 0);
  }

  int Kill(int signal) {
    int status = 0;
    if (worker_ > 0) {
      kill(worker_, signal);
      waitpid(worker_, &status, 0);
      worker_ = 0;
    }
    return status;
  }

  // All that was started for this test and lives.
  std::vector<ProcessIdentity> Survivors() { return ProcessesStartedWith("AMPD_TEST_FOLDER", state_); }

  // Those of them that do not end either, by their command lines. A shim has told all that the worker waits for when it
  // begins to end.
  std::vector<std::string> Remaining() {
    constexpr int kEndMillis = 10'000;
    std::vector<std::string> commands;
    for (const ProcessIdentity& identity : Survivors()) {
      const auto process = ProcessHandle::Open(identity);
      pollfd ended = {process.ok() ? process->pidfd() : -1, POLLIN, 0};
      if (process.ok() && poll(&ended, 1, kEndMillis) == 0) {
        commands.push_back(ReadFile(absl::StrCat("/proc/", identity.pid, "/cmdline"), 4096).value_or("?"));
      }
    }
    return commands;
  }

  bool RunsAt(const std::string& job, int64_t step) {
    return server_.WaitFor(
        [&](const FakeServer& server) { return server.StateOf(job) == "RUNNING" && server.StepOf(job) >= step; });
  }

  std::optional<v1::Outcome> WaitForOutcome(const std::string& job) {
    std::optional<v1::Outcome> outcome;
    server_.WaitFor([&](const FakeServer& server) {
      if (server.OutcomeOf(job) != nullptr) {
        outcome = *server.OutcomeOf(job);
      }
      return outcome.has_value();
    });
    return outcome;
  }

  // The attempt is not reported any more, and what it started is gone: what is left is the worker and, with a shim and
  // a trainer each, `num_warm` warm ones.
  bool WaitForCleanup(const std::string& job, size_t num_warm) {
    return server_.WaitFor([&](const FakeServer& server) {
      return server.StateOf(job).empty() && Survivors().size() == 1 + 2 * num_warm;
    });
  }

  std::vector<Step> Steps() {
    std::vector<Step> steps;
    std::ifstream file(state_ + "/steps");
    for (Step step; file >> step.pid >> step.number >> step.boot_nanos;) {
      steps.push_back(step);
    }
    return steps;
  }

  FakeServer server_;
  std::string state_;
  std::string environment_;
  pid_t worker_ = 0;
};

TEST_F(Worker, RunsAnAttemptToItsEnd_AndStoresEveryPointAndTheLog) {
  StartWorker();
  server_.Want("j1", "steps=50,pause_us=100,chatter=3,checkpoint=20");
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::FINISHED);
  EXPECT_EQ(outcome->last_step(), 50);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) {
    return server.stored("j1") == 50 && server.num_gaps() == 0 && server.num_checkpoints() >= 1;
  }));
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) {
    return server.log("j1") ==
           "line 0 of the scripted trainer\nline 1 of the scripted trainer\nline 2 of the scripted "
           "trainer\n";
  }));
  EXPECT_TRUE(WaitForCleanup("j1", 1));
}

// A directive answers each report at once: one report that it brings about would keep the two going for ever.
TEST_F(Worker, EndedAttemptWhoseTelemetryIsNotStored_IsNotReportedMoreOftenThanTheInterval) {
  server_.SetBusy(true);
  StartWorker({"--no-warm"});
  server_.Want("j1", "steps=20");
  ASSERT_TRUE(WaitForOutcome("j1").has_value());
  int before = 0;
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    before = server.num_reports();
    return server.StateOf("j1").empty();
  }));
  constexpr int kLeases = 4;
  server_.WaitFor([](const FakeServer&) { return false; }, kLeases * kLease);
  server_.WaitFor([&](const FakeServer& server) {
    EXPECT_GT(server.num_reports(), before);
    EXPECT_LE(server.num_reports(), before + 10 * kLeases);
    EXPECT_EQ(server.stored("j1"), 0u);
    return true;
  });
  server_.SetBusy(false);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.stored("j1") == 20; }));
  // Well before it would be killed: its lease was renewed, so it was never stopped.
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer&) { return Survivors().size() == 1; }, absl::Seconds(5)));
}

TEST_F(Worker, ServerThatIsBusy_GetsManyStepsInOneUpload) {
  server_.SetBusy(true);
  StartWorker({"--no-warm"});
  server_.Want("j1", "steps=400,pause_us=100");
  ASSERT_TRUE(WaitForOutcome("j1").has_value());
  server_.SetBusy(false);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.stored("j1") == 400; }));
  server_.WaitFor([](const FakeServer& server) {
    EXPECT_LE(server.num_uploads(), 10);
    EXPECT_EQ(server.num_gaps(), 0);
    return true;
  });
  EXPECT_TRUE(WaitForCleanup("j1", 0));
}

TEST_F(Worker, TwoJobsOnOneDevice_RunOneAfterTheOther) {
  StartWorker();
  server_.Want("j1", "steps=20");
  server_.Want("j2", "steps=20");
  ASSERT_TRUE(WaitForOutcome("j1").has_value());
  ASSERT_TRUE(WaitForOutcome("j2").has_value());
  std::set<int> finished;
  int current = 0;
  for (const Step& step : Steps()) {
    if (step.pid != current) {
      EXPECT_TRUE(finished.insert(step.pid).second) << "two trainers computed at once";
      current = step.pid;
    }
  }
  EXPECT_EQ(finished.size(), 2u);
}

// Its shim has it too; the worker itself keeps the environment that it was given.
TEST_F(Worker, Trainer_WaitsForItsThreadsWithoutHoldingTheCore) {
  unsetenv("GOMP_SPINCOUNT");
  unsetenv("OMP_WAIT_POLICY");
  StartWorker({"--no-warm"});
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 1));
  size_t num_told = 0;
  for (const ProcessIdentity& told : ProcessesStartedWith("GOMP_SPINCOUNT", "1000")) {
    for (const ProcessIdentity& ours : Survivors()) {
      num_told += told.pid == ours.pid ? 1 : 0;
    }
  }
  EXPECT_EQ(num_told, 2u);  // shim and trainer
}

TEST_F(Worker, DeviceThatItsWarmTrainerCannotUse_IsOfferedAsUnhealthyUntilOneCan) {
  const std::string error = "this host has no CUDA driver";
  std::ofstream(state_ + "/device_error") << error;
  StartWorker();
  EXPECT_TRUE(server_.WaitFor(
      [&](const FakeServer& server) { return server.DeviceText() == absl::StrCat("cpu unhealthy: ", error); }));
  // The trainer is of no use and goes; the worker is left.
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer&) { return Survivors().size() == 1; }));
  Kill(SIGKILL);
  fs::remove(state_ + "/device_error");
  int before = 0;
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    before = server.num_reports();
    return true;
  }));
  StartWorker();
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    return server.num_reports() > before + 1 && server.DeviceText() == "cpu healthy" && Survivors().size() == 3;
  }));
}

TEST_F(Worker, TrainerThatCrashes_EndsWithItsSignal) {
  StartWorker();
  server_.Want("j1", "crash=5");
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->reason(), v1::TRAINER_CRASHED);
  EXPECT_EQ(outcome->signal(), SIGABRT);
  EXPECT_THAT(outcome->message(), HasSubstr("ABRT"));
  EXPECT_TRUE(WaitForCleanup("j1", 1));
}

TEST_F(Worker, TrainerThatExitsWithoutAnOutcome_TellsItsCode) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "exit=7");
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->exit_code(), 7);
}

TEST_F(Worker, OrphansOfAnAttempt_AreGoneWithIt) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "orphans,crash=20");
  ASSERT_TRUE(WaitForOutcome("j1").has_value());
  EXPECT_TRUE(WaitForCleanup("j1", 0)) << Survivors().size() << " processes are left";
}

TEST_F(Worker, PausedAttempt_Leaves) {
  StartWorker();
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.Want("j1", "", v1::Job::PAUSE);
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::LEFT);
}

TEST_F(Worker, AttemptThatIsNotNamedAnyMore_IsKilledThoughItIgnoresSignals) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "deaf,orphans");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.Drop("j1");
  EXPECT_TRUE(WaitForCleanup("j1", 0));
}

TEST_F(Worker, LeaseThatRunsOut_StopsTheTrainerAndARenewedOneLetsItGoOn) {
  StartWorker();
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.SetSilent(true);
  // A stopped process is seen in the process table.
  const auto stopped = [&] {
    for (const ProcessIdentity& identity : Survivors()) {
      const auto entry = ReadProcess(identity.pid);
      if (entry.ok() && entry->state == 'T') {
        return true;
      }
    }
    return false;
  };
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (!stopped()) {
    ASSERT_LT(absl::Now(), limit) << "the trainer was never stopped";
  }
  const int64_t stopped_nanos = absl::ToInt64Nanoseconds(SystemClock().SinceBoot());
  const size_t num_steps = Steps().size();
  // Nothing computes while it is stopped: a whole lease goes by.
  server_.WaitFor([](const FakeServer&) { return false; }, kLease);
  EXPECT_EQ(Steps().size(), num_steps);
  server_.SetSilent(false);
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    return server.StateOf("j1") == "RUNNING" && server.StepOf("j1") > static_cast<int64_t>(num_steps);
  }));
  std::set<int> pids;
  int64_t next = 1;
  for (const Step& step : Steps()) {
    pids.insert(step.pid);
    EXPECT_EQ(step.number, next++);
    EXPECT_FALSE(step.boot_nanos > stopped_nanos && step.number <= static_cast<int64_t>(num_steps));
  }
  EXPECT_EQ(pids.size(), 1u);
}

TEST_F(Worker, AgentStoppedBeyondItsLease_NoStepStartsAfterTheDeadline) {
  StartWorker();
  // Slow enough that what it tells fits into its socket while nobody reads.
  server_.Want("j1", "pause_us=20000");
  ASSERT_TRUE(RunsAt("j1", 5));
  const int64_t stopped_nanos = absl::ToInt64Nanoseconds(SystemClock().SinceBoot());
  kill(worker_, SIGSTOP);
  // Three leases: the last one was counted from a report that was sent before the stop.
  server_.WaitFor([](const FakeServer&) { return false; }, 3 * kLease);
  const int64_t continued_nanos = absl::ToInt64Nanoseconds(SystemClock().SinceBoot());
  kill(worker_, SIGCONT);
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) { return server.StepOf("j1") > 0; }));
  const size_t num_before = Steps().size();
  ASSERT_TRUE(server_.WaitFor(
      [&](const FakeServer& server) { return server.StepOf("j1") > static_cast<int64_t>(num_before); }));
  // A step that had begun may end a little after the deadline; the next one does not begin.
  const int64_t deadline = stopped_nanos + absl::ToInt64Nanoseconds(kLease + absl::Milliseconds(100));
  for (const Step& step : Steps()) {
    EXPECT_FALSE(step.boot_nanos > deadline && step.boot_nanos < continued_nanos) << "step " << step.number;
  }
}

TEST_F(Worker, AgentKilledAndRestarted_FindsItsTrainerAndLosesNoPoint) {
  StartWorker();
  server_.Want("j1", "pause_us=500");
  ASSERT_TRUE(RunsAt("j1", 20));
  for (int i = 0; i < 5; ++i) {
    Kill(SIGKILL);
    StartWorker();
    const uint64_t before = Steps().size();
    ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) { return server.stored("j1") > before; })) << i;
  }
  server_.Want("j1", "", v1::Job::PAUSE);
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::LEFT) << outcome->message();
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    return server.stored("j1") == outcome->last_sequence() && server.num_gaps() == 0;
  }));
  std::set<int> pids;
  for (const Step& step : Steps()) {
    pids.insert(step.pid);
  }
  EXPECT_EQ(pids.size(), 1u) << "the trainer was started again";
}

TEST_F(Worker, TrainerThatEndedWhileTheAgentWasAway_IsReportedWithItsExit) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "crash=150,pause_us=500");
  ASSERT_TRUE(RunsAt("j1", 5));
  Kill(SIGKILL);
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (!Survivors().empty()) {
    ASSERT_LT(absl::Now(), limit);
  }
  StartWorker({"--no-warm"});
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  // Suspended by its lease, it may also have been found and killed; it crashed here.
  EXPECT_EQ(outcome->signal(), SIGABRT) << outcome->message();
}

TEST_F(Worker, SigtermWithStopTrainers_LeavesNothingBehind) {
  StartWorker({"--stop-trainers-on-exit", "--exit-grace", "5"});
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  const int status = Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(Remaining(), testing::IsEmpty());
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.OutcomeOf("j1") != nullptr; }));
}

TEST_F(Worker, WorkerThatIsStopping_StartsNothingMore) {
  StartWorker({"--stop-trainers-on-exit", "--exit-grace", "5"});
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.Want("j2", "");
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.StateOf("j2") == "ASSIGNED"; }));
  const int status = Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(Remaining(), testing::IsEmpty());
  std::set<int> pids;
  for (const Step& step : Steps()) {
    pids.insert(step.pid);
  }
  EXPECT_EQ(pids.size(), 1u) << "j2 was started";
  EXPECT_TRUE(server_.WaitFor(
      [](const FakeServer& server) { return server.DeviceText() == "cpu unhealthy: the worker is stopping"; }));
}

TEST_F(Worker, DeleteCheckpoint_StaysBelowTheRoot) {
  const std::string root = state_ + "/checkpoints";
  fs::create_directories(root + "/j1/1/step-5");
  fs::create_directories(state_ + "/outside");
  fs::create_symlink(state_ + "/outside", root + "/link");
  server_.Delete("../outside");
  std::ofstream(state_ + "/outside/kept") << "x";
  server_.Delete("link/kept");
  server_.Delete("");
  server_.Delete("j1/1/step-5");
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer&) { return !fs::exists(root + "/j1/1/step-5"); }));
  EXPECT_TRUE(fs::exists(state_ + "/outside/kept"));
  EXPECT_TRUE(fs::exists(root));
}

TEST_F(Worker, SecondAgentOnOneStateFolder_IsRefused) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_reports() > 0; }));
  const pid_t first = std::exchange(worker_, 0);
  StartWorker({"--no-warm"});
  int status = 0;
  waitpid(std::exchange(worker_, 0), &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  worker_ = first;
}

TEST_F(Worker, StateFolderThatCannotBeWritten_FailsTheAttemptAndTheWorkerLives) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_reports() > 0; }));
  fs::remove_all(state_ + "/spawn");
  std::ofstream(state_ + "/spawn") << "a file where a folder should be";
  server_.Want("j1", "");
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::FAILED);
  EXPECT_THAT(outcome->message(), HasSubstr("spawn folder"));
  fs::remove(state_ + "/spawn");
  server_.Want("j2", "steps=3");
  ASSERT_TRUE(WaitForOutcome("j2").has_value());
}

}  // namespace
}  // namespace ampd::agent
