// Tests of the real ampd-worker and ampd-shim with scripted trainers and a fake server.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ampd/internal/trainer.pb.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "base/ipc/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/agent/fake_server.h"
#include "worker/agent/trainers/spawn_folder.h"

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

// Maximum time for a reaction of the worker. It is half of the worker's time limit for a connection. It allows for a
// loaded host, and for TSan, which adds a second at a program's end.
constexpr absl::Duration kPromptly = absl::Seconds(5);

// A port that refuses connections, or that accepts them and never answers. A gRPC server can later listen on the same
// port, but no other program can.
class UnusedPort {
 public:
  explicit UnusedPort(bool listening) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    socklen_t size = sizeof(address_);
    auto* generic = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(bind(fd_.get(), generic, size), 0);
    EXPECT_EQ(getsockname(fd_.get(), generic, &size), 0);
    EXPECT_EQ(listening ? listen(fd_.get(), 8) : 0, 0);
  }
  int number() const { return ntohs(address_.sin_port); }
  std::string address() const { return absl::StrCat("127.0.0.1:", number()); }

 private:
  const UniqueFd fd_;
  sockaddr_in address_ = {};
};

class Worker : public testing::Test {
 protected:
  explicit Worker(absl::Duration lease = kLease) : server_(lease) {
    std::string name = testing::TempDir() + "/ampd-worker-XXXXXX";
    state_ = mkdtemp(name.data());
    environment_ = absl::StrCat("AMPD_TEST_FOLDER=", state_);
  }

  ~Worker() override {
    Kill(SIGKILL);
    // Kill in rounds until no process is left, because a shim may start its trainer just before the shim is killed.
    for (auto left = Survivors(); !left.empty(); left = Survivors()) {
      for (const ProcessIdentity& identity : left) {
        if (auto process = ProcessHandle::Open(identity); process.ok()) {
          process->Signal(SIGKILL).IgnoreError();
          pollfd ended = {process->pidfd(), POLLIN, 0};
          poll(&ended, 1, /*timeout=*/-1);
        }
      }
    }
    std::error_code error;
    fs::remove_all(state_, error);
    while (ReadLog(/*timeout_millis=*/0)) {
    }
    std::fputs(log_.c_str(), stderr);
  }

  // Starts the worker. Options in `more` replace the default options of the same name.
  void StartWorker(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {std::string(AMPD_BIN_DIR) + "/ampd-worker"};
    const std::vector<std::pair<std::string, std::string>> defaults = {
        {"--server", server_.address()},
        {"--name", "w1"},
        {"--state-dir", state_},
        {"--trainer", std::string(AMPD_BIN_DIR) + "/ampd-scripted-trainer"},
        {"--device", "cpu"}};
    for (const auto& [flag, value] : defaults) {
      if (std::find(more.begin(), more.end(), flag) == more.end()) {
        arguments.insert(arguments.end(), {flag, value});
      }
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    // All processes of the test inherit this variable, by which the test finds processes that are still running.
    std::vector<char*> env;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      env.push_back(*entry);
    }
    env.push_back(environment_.data());
    env.push_back(nullptr);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    log_pipe_ = UniqueFd(ends[0]);
    const UniqueFd log_end(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, log_end.get(), STDERR_FILENO);
    ASSERT_EQ(posix_spawn(&worker_, argv[0], &actions, nullptr, argv.data(), env.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }

  // Reads new lines of the worker's log. Returns false if none came within the time limit.
  bool ReadLog(int timeout_millis) {
    pollfd readable = {log_pipe_.get(), POLLIN, 0};
    char bytes[4096];
    const ssize_t count =
        log_pipe_.ok() && poll(&readable, 1, timeout_millis) == 1 ? read(log_pipe_.get(), bytes, sizeof(bytes)) : 0;
    log_.append(bytes, static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return count > 0;
  }

  bool WaitForLog(const std::string& text) {
    while (log_.find(text) == std::string::npos) {
      if (!ReadLog(/*timeout_millis=*/20'000)) {
        return false;
      }
    }
    return true;
  }

  int TimesLogged(const std::string& text) const {
    int count = 0;
    for (size_t at = log_.find(text); at != std::string::npos; at = log_.find(text, at + 1)) {
      ++count;
    }
    return count;
  }

  // Waits until the worker ends by itself, reads the rest of its log, and returns its exit code.
  int WaitForExit() {
    int status = 0;
    waitpid(std::exchange(worker_, 0), &status, 0);
    while (ReadLog(/*timeout_millis=*/0)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

  int NumZombies() const {
    int count = 0;
    for (const ProcessEntry& entry : ListProcesses()) {
      count += entry.parent == worker_ && entry.state == 'Z' ? 1 : 0;
    }
    return count;
  }

  // Returns all living processes that were started for this test.
  std::vector<ProcessIdentity> Survivors() { return ProcessesStartedWith("AMPD_TEST_FOLDER", state_); }

  // Returns the command lines of processes that are still running after a time limit. Shims need this time, because a
  // shim ends shortly after it has sent the last message that the worker waits for.
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

  // Waits until the attempt is no longer reported, and only the worker and `num_warm` warm trainers, each with its
  // shim, are left.
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
  UniqueFd log_pipe_;
  std::string log_;  // the part of all workers' logs that was read so far
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

class WorkerWithATrainer : public Worker, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(OfThisVersionAndOlder, WorkerWithATrainer, testing::Values("", "old,"),
                         [](const auto& info) { return *info.param == '\0' ? "ThisVersion" : "Older"; });

// After the agent's restart, the trainer sends the checkpoint and the outcome first, and then the telemetry that is not
// stored yet.
TEST_P(WorkerWithATrainer, RestartedAgent_ReportsCheckpointOutcomeAndAllTelemetry) {
  server_.SetBusy(true);
  StartWorker({"--no-warm"});
  const std::string script = absl::StrCat(GetParam(), "steps=3000,pause_us=10,checkpoint=20");
  server_.Want("j1", script);
  ASSERT_TRUE(WaitForOutcome("j1").has_value());
  Kill(SIGKILL);
  server_.Want("j1", script);  // otherwise the attempt might be killed before it reports its outcome again
  server_.SetBusy(false);
  StartWorker({"--no-warm"});
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.stored("j1") == 3000; }));
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_gaps() == 0; }, {}));
  EXPECT_TRUE(WaitForCleanup("j1", 0));
}

TEST_P(WorkerWithATrainer, Checkpoint_IsReportedWhenTheTelemetryBeforeItIsStored) {
  constexpr int kReports = 5;
  server_.SetBusy(true);
  StartWorker({"--no-warm"});
  server_.Want("j1", absl::StrCat(GetParam(), "checkpoint=20"));
  ASSERT_TRUE(RunsAt("j1", 30));
  int after = 0;
  server_.WaitFor([&](const FakeServer& server) {
    after = after == 0 ? server.num_reports() + kReports : after;
    return server.num_reports() >= after;
  });
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_checkpoints() == 0; }, {}));
  server_.SetBusy(false);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_checkpoints() >= 1; }));
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_early_checkpoints() == 0; }, {}));
}

// The agent reports the outcome and the checkpoint at once, and the telemetry later. The server accepts telemetry later
// from an attempt that ended by itself.
TEST_F(Worker, OutcomeAndItsCheckpoint_DoNotWaitForTelemetry) {
  server_.SetBusy(true);
  StartWorker({"--no-warm"});
  server_.Want("j1", "steps=20,checkpoint=20");
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::FINISHED);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_checkpoints() >= 1; }, {}));
  server_.SetBusy(false);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.stored("j1") == 20; }));
}

// The server answers each report at once with a directive. A directive must not cause a report, because that would be
// an endless exchange.
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
  // The trainer ends well before the deadline at which it would be killed. Its lease was renewed, so the trainer was
  // never suspended and could send its telemetry.
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

// While the server is busy, the trainer sends more samples than the agent buffers, so the trainer has to wait.
TEST_F(Worker, Samples_ReachTheServerWholeAndOnce) {
  constexpr size_t kMostOfGrpc = 4 << 20;
  StartWorker();
  server_.SetBusy(true);
  server_.Want("j1", "steps=24,pause_us=100,sample=2");
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.StepOf("j1") >= 6; }));
  server_.SetBusy(false);
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.stored("j1") == 24 + 12; }));
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) {
    EXPECT_EQ(server.num_gaps(), 0);
    EXPECT_LT(server.largest_upload(), kMostOfGrpc / 2);
    const std::vector<v1::Sample> samples = server.samples("j1");
    EXPECT_EQ(samples.size(), 12u);
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto step = static_cast<int64_t>(2 * (i + 1));
      EXPECT_EQ(samples[i].step(), step);
      EXPECT_EQ(samples[i].content(), std::string(1 << 20, static_cast<char>('a' + step % 26))) << step;
    }
    return true;
  }));
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

// The worker sets GOMP_SPINCOUNT for the shim, which passes it on to the trainer. The worker does not set this variable
// for itself.
TEST_F(Worker, Trainer_WaitsForItsThreadsWithoutHoldingTheCore) {
  unsetenv("GOMP_SPINCOUNT");
  unsetenv("OMP_WAIT_POLICY");
  StartWorker({"--no-warm"});
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 1));
  size_t num_set = 0;
  for (const ProcessIdentity& set : ProcessesStartedWith("GOMP_SPINCOUNT", "1000")) {
    for (const ProcessIdentity& ours : Survivors()) {
      num_set += set.pid == ours.pid ? 1 : 0;
    }
  }
  EXPECT_EQ(num_set, 2u);  // in the shim and in the trainer
}

TEST_F(Worker, DeviceThatItsWarmTrainerCannotUse_IsOfferedAsUnhealthyUntilOneCan) {
  const std::string error = "this host has no CUDA driver";
  std::ofstream(state_ + "/device_error") << error;
  StartWorker();
  EXPECT_TRUE(server_.WaitFor(
      [&](const FakeServer& server) { return server.DeviceText() == absl::StrCat("cpu unhealthy: ", error); }));
  // The trainer that cannot use the device must end, so that only the worker is left.
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

TEST_F(Worker, DeviceThatTheTrainerOfAnAttemptCannotUse_IsOfferedAsUnhealthy) {
  std::ofstream(state_ + "/device_error") << "no driver";
  StartWorker({"--no-warm"});
  server_.Want("j1", "");
  EXPECT_TRUE(
      server_.WaitFor([&](const FakeServer& server) { return server.DeviceText() == "cpu unhealthy: no driver"; }));
}

TEST_F(Worker, TrainerThatCrashes_EndsWithItsSignal) {
  StartWorker();
  server_.Want("j1", "crash=5");
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->reason(), v1::Reason::TRAINER_CRASHED);
  EXPECT_EQ(outcome->signal(), SIGABRT);
  EXPECT_THAT(outcome->message(), HasSubstr("ABRT"));
  EXPECT_TRUE(WaitForCleanup("j1", 1));
}

TEST_F(Worker, TrainerThatExitsWithoutAnOutcome_IsReportedWithItsCode) {
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

TEST_F(Worker, AttemptThatNamesAnArtifact_StartsWhenThatHasCome) {
  const std::string artifact = server_.AddArtifact("a model");
  server_.HideArtifacts(true);
  StartWorker();
  server_.Want("j1", "steps=5", v1::Job::RUN, artifact);
  ASSERT_TRUE(server_.WaitFor(
      [](const FakeServer& server) { return server.num_downloads() > 2 && server.StateOf("j1") == "STARTING"; }));
  EXPECT_TRUE(Steps().empty());
  server_.HideArtifacts(false);
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::FINISHED);
  EXPECT_EQ(ReadFile(absl::StrCat(state_, "/artifacts/", artifact), 100).value_or("none"), "a model");
}

TEST_F(Worker, AttemptWhoseArtifactTheServerHasNot_EndsAndTheNextOneRuns) {
  StartWorker();
  server_.Want("j1", "steps=5", v1::Job::RUN, std::string(64, 'a'));
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->reason(), v1::Reason::DATA_ERROR);
  EXPECT_THAT(outcome->message(), HasSubstr("model.exported.artifact: the worker can't fetch aaaa"));
  server_.Want("j2", "steps=5");
  ASSERT_TRUE(WaitForOutcome("j2").has_value());
}

TEST_F(Worker, AttemptWhoseArtifactTheWorkerCannotKeep_EndsAsAFaultOfTheWorker) {
  ASSERT_TRUE(WriteFileAtomically(state_ + "/artifacts", "no folder").ok());
  StartWorker();
  server_.Want("j1", "steps=5", v1::Job::RUN, server_.AddArtifact("a model"));
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->reason(), v1::Reason::DEVICE_ERROR) << outcome->message();
}

TEST_F(Worker, AttemptPausedWhileItsArtifactIsFetched_LeavesAtOnce) {
  const std::string artifact = server_.AddArtifact("a model");
  server_.HideArtifacts(true);
  StartWorker();
  server_.Want("j1", "", v1::Job::RUN, artifact);
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_downloads() > 0; }));
  server_.Want("j1", "", v1::Job::PAUSE, artifact);
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::LEFT);
  EXPECT_EQ(outcome->reason(), v1::Reason::USER_PAUSED);
  EXPECT_TRUE(Steps().empty());
}

TEST_F(Worker, AttemptThatIsNotNamedAnyMore_IsKilledThoughItIgnoresSignals) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "deaf,orphans");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.Drop("j1");
  EXPECT_TRUE(WaitForCleanup("j1", 0));
}

TEST_F(Worker, LeaseThatRunsOut_StopsTheTrainerUntilItIsRenewed) {
  StartWorker();
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.SetSilent(true);
  // Whether the process table shows a process of this test as stopped.
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
  // Wait for a whole lease, in which the stopped trainer must compute nothing.
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
  // The trainer makes steps so slowly that the socket's buffer can hold its reports while the agent is stopped.
  server_.Want("j1", "pause_us=20000");
  ASSERT_TRUE(RunsAt("j1", 5));
  const int64_t stopped_nanos = absl::ToInt64Nanoseconds(SystemClock().SinceBoot());
  kill(worker_, SIGSTOP);
  // Wait for three times the duration of a lease. The lease counts from a report that was sent before the agent was
  // stopped, so the lease has expired after this time.
  server_.WaitFor([](const FakeServer&) { return false; }, 3 * kLease);
  const int64_t continued_nanos = absl::ToInt64Nanoseconds(SystemClock().SinceBoot());
  kill(worker_, SIGCONT);
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) { return server.StepOf("j1") > 0; }));
  const size_t num_before = Steps().size();
  ASSERT_TRUE(server_.WaitFor(
      [&](const FakeServer& server) { return server.StepOf("j1") > static_cast<int64_t>(num_before); }));
  // A step in progress may end a little after the lease's deadline, but no further step may begin.
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

// Creates the state that an agent leaves if it ends after it has written the spawn record and before the shim
// starts: only the record exists.
TEST_F(Worker, AttemptWhoseAgentEndedBeforeItsShimBegan_IsStarted) {
  internal::SpawnRecord record;
  record.set_spawn_id("unborn");
  record.set_token("unborn");
  record.set_device("cpu");
  record.set_boot_id(BootId().value());
  *record.mutable_key() = server_.Want("j1", "steps=20");
  ASSERT_TRUE(SpawnFolder::Create(state_, record).ok());
  StartWorker({"--no-warm"});
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::FINISHED) << outcome->message();
  EXPECT_EQ(Steps().size(), 20u);
}

// After a trainer has read its artifact, the attempt must continue even if the server and the cache no longer have the
// artifact.
TEST_F(Worker, AgentKilledAndRestarted_NeedsNoArtifactThatItsTrainerHasRead) {
  const std::string artifact = server_.AddArtifact("a model");
  StartWorker();
  server_.Want("j1", "pause_us=500", v1::Job::RUN, artifact);
  ASSERT_TRUE(RunsAt("j1", 20));
  Kill(SIGKILL);
  server_.HideArtifacts(true);
  ASSERT_TRUE(fs::remove(absl::StrCat(state_, "/artifacts/", artifact)));
  server_.Want("j1", "pause_us=500", v1::Job::PAUSE, artifact);
  StartWorker();
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->kind(), v1::Outcome::LEFT);
  EXPECT_EQ(outcome->message(), "") << "it is not the trainer's";
  EXPECT_EQ(outcome->last_step(), static_cast<int64_t>(Steps().size()));
  EXPECT_EQ(outcome->last_sequence(), Steps().size());
}

// Tests in which a trainer must make progress while no agent renews its lease. The lease is so long that the trainer
// makes enough progress before it expires, even on a slow host.
class WorkerWithALongLease : public Worker {
 protected:
  WorkerWithALongLease() : Worker(15 * kLease) {}
};

TEST_F(WorkerWithALongLease, TrainerThatEndedWhileTheAgentWasAway_IsReportedWithItsExit) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "crash=350,pause_us=10000");
  ASSERT_TRUE(RunsAt("j1", 5));
  Kill(SIGKILL);
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  while (!Survivors().empty()) {
    ASSERT_LT(absl::Now(), limit);
  }
  StartWorker({"--no-warm"});
  const std::optional<v1::Outcome> outcome = WaitForOutcome("j1");
  ASSERT_TRUE(outcome.has_value());
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

TEST_F(Worker, StreamThatTheServerEnds_IsLoggedOnceWithItsReasonAndReopened) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  server_.EndStreamsWith(grpc::Status(grpc::UNAVAILABLE, "the server is shutting down"));
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_ended_streams() >= 3; }));
  server_.EndStreamsWith(grpc::Status::OK);
  log_.clear();
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  EXPECT_EQ(TimesLogged(" ended: the server is shutting down\n"), 1) << log_;
  // The same error must be logged again, because the server has accepted the worker in between.
  server_.EndStreamsWith(grpc::Status(grpc::UNAVAILABLE, "the server is shutting down"));
  log_.clear();
  EXPECT_TRUE(WaitForLog(" ended: the server is shutting down\n"));
}

TEST_F(Worker, NameThatAnotherAgentHas_IsLoggedOnceAndUsedWhenItIsFree) {
  const std::string refusal = "another agent uses the name w1: red:/state; choose another --name";
  server_.EndStreamsWith(ToGrpcStatus(Error(absl::StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE", refusal)));
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_ended_streams() >= 4; }));
  server_.EndStreamsWith(grpc::Status::OK);
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  EXPECT_EQ(TimesLogged(" warning " + refusal + "\n"), 1) << log_;
  EXPECT_EQ(TimesLogged("the server accepted this worker"), 1) << log_;
}

TEST_F(Worker, Identity_IsTheStateFolders) {
  std::vector<std::string> ids;
  for (const char* folder : {"/a", "/b", "/a"}) {
    StartWorker({"--no-warm", "--state-dir", state_ + folder});
    log_.clear();
    ASSERT_TRUE(WaitForLog("the server accepted this worker"));
    server_.WaitFor([&](const FakeServer& server) {
      ids.push_back(server.agent_id());
      return true;
    });
    Kill(SIGTERM);
  }
  EXPECT_NE(ids[0], "");
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_EQ(fs::status(state_ + "/a").permissions(), fs::perms::owner_all);
}

TEST_F(Worker, Identity_IsForTheWorkersOwnUserToReadAlone) {
  std::ofstream(state_ + "/agent-id") << "of-an-earlier-agent";
  fs::permissions(state_ + "/agent-id", static_cast<fs::perms>(0644));
  StartWorker({"--no-warm"});
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.agent_id() == "of-an-earlier-agent"; }));
  EXPECT_EQ(fs::status(state_ + "/agent-id").permissions(), static_cast<fs::perms>(0600));
  EXPECT_THAT(log_, testing::Not(HasSubstr("of-an-earlier-agent")));
}

TEST_F(Worker, FoldersThatOthersRead_AreClosed) {
  fs::permissions(state_, static_cast<fs::perms>(0755));
  fs::create_directory(state_ + "/root");
  fs::permissions(state_ + "/root", static_cast<fs::perms>(0755));
  StartWorker({"--no-warm", "--checkpoint-root", state_ + "/root"});
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  EXPECT_THAT(log_, HasSubstr("closed " + state_ + " to other users: mode 0755 is now 0700, and 1 more"));
  EXPECT_EQ(fs::status(state_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(state_ + "/root").permissions(), fs::perms::owner_all);
}

TEST_F(Worker, AFolderThatOthersWrite_IsRefusedByName) {
  fs::create_directory(state_ + "/root");
  for (const std::string& path : {state_, state_ + "/root"}) {
    fs::permissions(path, static_cast<fs::perms>(0770));
    StartWorker(
        {"--no-warm", "--state-dir", path == state_ ? state_ : state_ + "/own", "--checkpoint-root", state_ + "/root"});
    EXPECT_EQ(WaitForExit(), 3);
    EXPECT_THAT(log_, HasSubstr(absl::StrCat(path, " has mode 0770")));
    EXPECT_THAT(log_, HasSubstr("chmod go-w " + path));
    fs::permissions(path, static_cast<fs::perms>(0700));
    log_.clear();
  }
}

TEST_F(Worker, ShimsThatHaveEnded_AreReapedHoweverTheyEnded) {
  StartWorker({"--no-warm"});
  int number = 0;
  for (const char* script : {"steps=2", "exit=3", "crash=1", "steps=2", "orphans,steps=2"}) {
    const std::string job = absl::StrCat("j", ++number);
    server_.Want(job, script);
    ASSERT_TRUE(WaitForOutcome(job).has_value());
    ASSERT_TRUE(WaitForCleanup(job, 0));
  }
  server_.Want("killed", "deaf");
  ASSERT_TRUE(RunsAt("killed", 2));
  server_.Drop("killed");
  ASSERT_TRUE(WaitForCleanup("killed", 0));
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer&) { return NumZombies() == 0; })) << NumZombies() << " zombies";
}

TEST_F(Worker, WarmTrainersThatDie_AreReaped) {
  std::ofstream(state_ + "/device_error") << "no driver";
  StartWorker();
  ASSERT_TRUE(WaitForLog("cpu can't be used: no driver"));
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer&) { return Survivors().size() == 1 && NumZombies() == 0; }));
}

TEST_F(Worker, Sighup_EndsNothing) {
  StartWorker({"--no-warm"});
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  const std::vector<ProcessIdentity> all = Survivors();
  ASSERT_EQ(all.size(), 3u) << "agent, shim and trainer";
  for (const ProcessIdentity& one : all) {
    kill(one.pid, SIGHUP);
  }
  ASSERT_TRUE(WaitForLog("SIGHUP is ignored"));
  int64_t step = 0;
  server_.WaitFor([&](const FakeServer& server) {
    step = server.StepOf("j1");
    return true;
  });
  EXPECT_TRUE(RunsAt("j1", step + 200));
  EXPECT_EQ(Survivors(), all);
}

TEST_F(Worker, Sigterm_IsAnnouncedSoThatNothingNewComes) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return !server.report().stopping(); }));
  const int status = Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.report().stopping(); }, {}));
}

TEST_F(Worker, Sigterm_EndsAWarmTrainer_EvenIfNoServerWasEverReached) {
  const UnusedPort port(/*listening=*/false);
  StartWorker({"--server", port.address()});
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer&) { return Survivors().size() == 3; })) << "agent, shim and trainer";
  const int status = Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(Remaining(), testing::IsEmpty());
}

TEST_F(Worker, Sigterm_LeavesATrainerThatTrains) {
  StartWorker();
  server_.Want("j1", "");
  ASSERT_TRUE(RunsAt("j1", 5));
  Kill(SIGTERM);
  EXPECT_EQ(Survivors().size(), 2u) << "shim and trainer";
}

TEST_F(Worker, SigtermWhileTheServerIsSilent_EndsTheWorker) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  server_.SetSilent(true);
  const absl::Duration asked = SystemClock().SinceBoot();
  const int status = Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_LT(SystemClock().SinceBoot() - asked, kPromptly);
}

TEST_F(Worker, AgentThatACopyOfItsStateFolderDisplaced_LogsItOnceAndYieldsUntilItIsAccepted) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  std::string before;
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    before = server.report().incarnation();
    return !before.empty() && !server.report().yields();
  }));
  server_.EndStreamsWith(ToGrpcStatus(Error(absl::StatusCode::kAborted, "REPLACED", "another agent has come since")));
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_ended_streams() >= 3; }));
  ASSERT_TRUE(WaitForLog("another agent took over as worker w1 with the id of this one's state folder " + state_));
  server_.EndStreamsWith(grpc::Status::OK);
  // The first report that the server accepts must have `yields` set, which means that the worker gives way to the other
  // agent. Later reports must not have it.
  bool yielded = false;
  EXPECT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    yielded |= server.report().yields() && server.report().incarnation() != before;
    return yielded && !server.report().yields();
  }));
  EXPECT_EQ(TimesLogged("another agent took over"), 1) << log_;
}

TEST_F(Worker, NameThatIsNoName_IsWrongUsage) {
  StartWorker({"--no-warm", "--name", "a/b c"});
  EXPECT_EQ(WaitForExit(), 2);
  EXPECT_THAT(log_, HasSubstr("--name (default: the host name) is \"a/b c\"; a worker's name has letters"));
}

TEST_F(Worker, ServerThatRefusesConnections_IsLoggedAtOnceAndSigtermEndsTheWorker) {
  const UnusedPort port(/*listening=*/false);
  StartWorker({"--no-warm", "--server", port.address()});
  ASSERT_TRUE(WaitForLog("can't connect to " + port.address()));
  const absl::Time asked = absl::Now();
  Kill(SIGTERM);
  EXPECT_LT(absl::Now() - asked, kPromptly);
}

TEST_F(Worker, ServerThatComesLater_IsFoundWithinTheLongestPause) {
  const UnusedPort port(/*listening=*/false);
  StartWorker({"--no-warm", "--server", port.address()});
  ASSERT_TRUE(WaitForLog("can't connect to " + port.address()));
  // Wait until the pauses between the worker's attempts to connect have grown.
  server_.WaitFor([](const FakeServer&) { return false; }, absl::Seconds(4));
  const absl::Time came = absl::Now();
  FakeServer late(kLease, port.number());
  ASSERT_TRUE(WaitForLog("the server accepted this worker"));
  EXPECT_LT(absl::Now() - came, kPromptly);
  EXPECT_EQ(TimesLogged("can't connect"), 1) << log_;
  Kill(SIGTERM);
}

TEST_F(Worker, ServerThatNeverAnswers_DoesNotDelaySigterm) {
  const UnusedPort port(/*listening=*/true);
  StartWorker({"--no-warm", "--server", port.address()});
  ASSERT_TRUE(WaitForLog("for server " + port.address()));
  const absl::Time asked = absl::Now();
  const int status = Kill(SIGTERM);
  EXPECT_LT(absl::Now() - asked, kPromptly);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
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
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_reports() >= 5; }));
  Kill(SIGTERM);
  while (ReadLog(/*timeout_millis=*/0)) {
  }
  EXPECT_EQ(TimesLogged("not below the root: ../outside\n"), 1) << log_;
  EXPECT_EQ(TimesLogged("not below the root: link/kept\n"), 1) << log_;
}

TEST_F(Worker, DeletedCheckpoint_TakesItsEmptyFoldersAlong) {
  const std::string root = state_ + "/checkpoints";
  for (const char* path : {"/j1/1/step-5", "/j2/1/step-5", "/j2/2/step-9", "/real/1/step-5", "/real/2/step-9"}) {
    fs::create_directories(root + path);
  }
  fs::create_symlink(root + "/real", root + "/link");
  fs::create_symlink(root + "/real/2", root + "/j2/link");
  for (const char* path : {"link/1/step-5", "j2/link/step-9", "j1/1/step-5", "j2/1/step-5"}) {
    server_.Delete(path);
  }
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_reports() >= 2; }));
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer&) { return !fs::exists(root + "/j2/1"); }));
  EXPECT_FALSE(fs::exists(root + "/j1"));
  EXPECT_TRUE(fs::exists(root + "/j2/2/step-9"));
  // When the worker removes checkpoints, it must follow no symbolic link, not even a link to another folder below the
  // root.
  EXPECT_TRUE(fs::exists(root + "/real/1/step-5"));
  EXPECT_TRUE(fs::exists(root + "/real/2/step-9"));
  EXPECT_TRUE(fs::is_symlink(root + "/link"));
}

TEST_F(Worker, FolderOfADeletedJob_GoesWhenItsTrainerIsGone) {
  const std::string root = state_ + "/checkpoints";
  fs::create_directories(root + "/j1/1/.step-7.tmp");
  std::ofstream(root + "/j1/1/.step-7.tmp/model.safetensors") << "cut off";
  StartWorker({"--no-warm"});
  server_.Want("j1", "deaf");
  ASSERT_TRUE(RunsAt("j1", 5));
  server_.Delete("j1");
  int before = 0;
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer& server) {
    before = before == 0 ? server.num_reports() : before;
    return server.num_reports() >= before + 3;
  }));
  EXPECT_TRUE(fs::exists(root + "/j1/1/.step-7.tmp/model.safetensors")) << "its attempt lives";
  server_.Drop("j1");
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer&) { return !fs::exists(root + "/j1"); }));
}

TEST_F(Worker, DeletedLastCheckpoint_LeavesTheRoot) {
  const std::string root = state_ + "/checkpoints";
  fs::create_directories(root + "/j1/1/step-5");
  server_.Delete("j1/1/step-5");
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([&](const FakeServer&) { return !fs::exists(root + "/j1"); }));
  EXPECT_TRUE(fs::is_empty(root));
}

TEST_F(Worker, CheckpointRootThatCannotBeWritten_EndsTheStartWithOneLine) {
  const std::string root = state_ + "/file";
  std::ofstream(root) << "a file where a folder should be";
  StartWorker({"--no-warm", "--checkpoint-root", root});
  EXPECT_EQ(WaitForExit(), 3);
  EXPECT_EQ(log_, absl::StrCat("ampd-worker: can't write the checkpoint root ", root, ": Not a directory\n"));
}

TEST_F(Worker, ReadyFile_IsThereOnceTheServerHasAcceptedTheWorker) {
  const std::string path = state_ + "/ready";
  std::ofstream(path) << "of an earlier worker";
  server_.EndStreamsWith(ToGrpcStatus(Error(absl::StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE", "another has it")));
  StartWorker({"--no-warm", "--metrics-listen", "127.0.0.1:0", "--ready-file", path});
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_ended_streams() >= 2; }));
  EXPECT_FALSE(fs::exists(path));
  server_.EndStreamsWith(grpc::Status::OK);
  ASSERT_TRUE(WaitForLog("the server accepted this worker: cpu, "));
  const std::vector<std::string> lines = absl::StrSplit(ReadFile(path, 1 << 10).value_or(""), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], testing::MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_THAT(log_, HasSubstr(", metrics at " + lines[0] + "\n"));
  EXPECT_THAT(lines[1], testing::MatchesRegex("cpu, .*, [0-9]+ MiB"));
  EXPECT_EQ(lines[2], "");
}

TEST_F(Worker, ReadyFileThatCannotBeWritten_IsLoggedAndTheWorkerLives) {
  StartWorker({"--no-warm", "--ready-file", state_ + "/none/ready"});
  ASSERT_TRUE(WaitForLog("can't write --ready-file " + state_ + "/none/ready: "));
  server_.Want("j1", "steps=3");
  ASSERT_TRUE(WaitForOutcome("j1").has_value());
}

TEST_F(Worker, WrongUsage_IsOneLineWithTheProgramsName) {
  StartWorker({"--metrics-listen", "0.0.0.0:0"});
  EXPECT_EQ(WaitForExit(), 2);
  EXPECT_THAT(log_,
              testing::StartsWith("ampd-worker: --metrics-listen 0.0.0.0:0: without TLS only loopback addresses "));
  EXPECT_EQ(TimesLogged("\n"), 1) << log_;
  log_.clear();
  StartWorker({"--bad-flag"});
  EXPECT_EQ(WaitForExit(), 2);
  EXPECT_THAT(log_, testing::MatchesRegex("ampd-worker: .*--bad-flag.*; see ampd-worker --help\n"));
}

TEST_F(Worker, SecondAgentOnOneStateFolder_IsRefused) {
  StartWorker({"--no-warm"});
  ASSERT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_reports() > 0; }));
  const pid_t first = std::exchange(worker_, 0);
  StartWorker({"--no-warm"});
  EXPECT_EQ(WaitForExit(), 3);
  worker_ = first;
}

TEST_F(Worker, StateFolderThatIsReleasedSoon_IsWaitedFor) {
  const std::string path = state_ + "/lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  const UniqueFd watch(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.get(), path.c_str(), IN_OPEN), 0);
  StartWorker({"--no-warm"});
  // The worker tries to lock the file as soon as it has opened it.
  pollfd opened = {watch.get(), POLLIN, 0};
  ASSERT_EQ(poll(&opened, 1, /*timeout=*/20'000), 1);
  lock = UniqueFd();
  EXPECT_TRUE(server_.WaitFor([](const FakeServer& server) { return server.num_reports() > 0; }));
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
