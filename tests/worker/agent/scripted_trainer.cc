// A trainer that does not train, for tests of the shim and the agent. It speaks trainer.proto and follows a script,
// which is the job's name: a comma-separated list of words.
//
//   steps=N      runs N steps, each with telemetry, then reports FINISHED (default: runs until it is ordered to leave)
//   pause_us=N   pauses N microseconds between two steps, in place of a computation (default 1000)
//   crash=N      calls abort() at step N
//   exit=N       exits with code N right after the start
//   deaf         ignores SIGTERM and LeaveAttempt
//   orphans      starts three processes that sleep: a child, a grandchild whose parent ends, and a child in its own
//                session, which ignores SIGTERM
//   chatter=N    writes N lines to stdout
//   checkpoint=N reports a checkpoint at step N
//   sample=N     reports a sample of 1 MiB after every Nth step
//   gpu          reports what a trainer on a GPU measures, and pauses 20 ms between two steps by default
//   old          acts like an older trainer: its checkpoints and its outcome name no sequence number, and on a new
//                connection it sends them after all telemetry
//
// FOLDER is the trainer's spawn folder (--spawn-folder), and FOLDER/../.. is the agent's state folder. If the file
// FOLDER/../../device_error exists, its content is the device error in Hello.
//
// Every step writes a line "pid step boottime_nanos" to FOLDER/../../steps, so that a test can see when the trainer
// computed. The trainer keeps telemetry until it is acknowledged, and sends it again on a new connection.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ampd/internal/trainer.pb.h"
#include "base/io/file.h"
#include "base/ipc/frames.h"
#include "base/ipc/unix_socket.h"

namespace {

using ampd::internal::TrainerCommand;
using ampd::internal::TrainerReport;
using ampd::v1::Attempt;
using ampd::v1::Outcome;

volatile std::sig_atomic_t terminated = 0;

int64_t BootNanos() {
  timespec time = {};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

void StartOrphans() {
  if (fork() == 0) {
    pause();
  }
  if (fork() == 0) {
    if (fork() == 0) {
      pause();
    }
    _exit(0);
  }
  if (fork() == 0) {
    setsid();
    std::signal(SIGTERM, SIG_IGN);
    pause();
  }
}

class ScriptedTrainer {
 public:
  explicit ScriptedTrainer(std::string folder) : folder_(std::move(folder)) {
    listener_ = *ampd::ListenUnix(folder_ + "/trainer.sock");
    steps_.reset(std::fopen((folder_ + "/../../steps").c_str(), "a"));
  }

  int Run() {
    while (!may_exit_) {
      HandleEvent(computing() ? std::max<int64_t>(next_step_nanos_ - BootNanos(), 0) : -1);
      if (exit_code_ >= 0) {
        return exit_code_;
      }
      if (terminated && !Has("deaf")) {
        leave_ = true;
      }
      if (computing() && BootNanos() >= next_step_nanos_) {
        Step();
      }
    }
    return 0;
  }

 private:
  bool Has(const std::string& word) const { return script_.count(word) > 0; }
  int64_t Number(const std::string& word, int64_t otherwise) const {
    int64_t number = otherwise;
    auto found = script_.find(word);
    if (found != script_.end()) {
      (void)absl::SimpleAtoi(found->second, &number);
    }
    return number;
  }
  int64_t StepNanos() const { return 1000 * Number("pause_us", Has("gpu") ? 20'000 : 1000); }
  bool computing() const { return key_.has_value() && !outcome_.has_value(); }

  // Waits for one event and handles it. With a negative timeout, waits without limit.
  void HandleEvent(int64_t timeout_nanos) {
    pollfd waits[2] = {{listener_.get(), POLLIN, 0}, {agent_.get(), POLLIN, 0}};
    const timespec timeout = {timeout_nanos / 1'000'000'000, timeout_nanos % 1'000'000'000};
    if (ppoll(waits, agent_.ok() ? 2 : 1, timeout_nanos < 0 ? nullptr : &timeout, nullptr) <= 0) {
      return;
    }
    if (waits[0].revents != 0) {
      agent_ = *ampd::AcceptUnix(listener_.get());
      SendAll();
    } else {
      ReadCommand();
    }
  }

  void ReadCommand() {
    auto payload = ampd::ReadFrame(agent_.get());
    TrainerCommand command;
    if (!payload.ok() || !payload->has_value() || !command.ParseFromString(**payload)) {
      agent_.Reset();
      return;
    }
    if (command.has_start() && !key_.has_value()) {
      OnStart(command.start());
    } else if (command.has_leave() && !Has("deaf")) {
      leave_ = true;
    } else if (command.has_acknowledge()) {
      kept_.erase(kept_.begin(), kept_.upper_bound(command.acknowledge().sequence()));
      if (saved_.has_value() &&
          absl::c_linear_search(command.acknowledge().checkpoint_steps(), saved_->checkpoint().step())) {
        saved_.reset();
      }
      may_exit_ = command.acknowledge().outcome();
    }
  }

  void OnStart(const ampd::internal::StartAttempt& start) {
    key_ = start.key();
    step_ = start.start_from().step();
    for (const auto& word : absl::StrSplit(start.spec().name(), ',')) {
      const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
      script_.insert(pair);
    }
    exit_code_ = static_cast<int>(Number("exit", -1));
    if (Has("orphans")) {
      StartOrphans();
    }
    for (int64_t i = 0; i < Number("chatter", 0); ++i) {
      std::printf("line %ld of the scripted trainer\n", static_cast<long>(i));
    }
    std::fflush(stdout);
    next_step_nanos_ = BootNanos() + StepNanos();
    SendState();
  }

  void Step() {
    if (leave_ || step_ == Number("steps", -1)) {
      End(leave_ ? Outcome::LEFT : Outcome::FINISHED);
      return;
    }
    next_step_nanos_ = BootNanos() + StepNanos();
    ++step_;
    if (step_ == Number("crash", -1)) {
      std::abort();
    }
    std::fprintf(steps_.get(), "%d %ld %ld\n", getpid(), static_cast<long>(step_), static_cast<long>(BootNanos()));
    std::fflush(steps_.get());
    ampd::v1::TelemetryBatch batch;
    batch.mutable_steps()->add_sequence(++sequence_);
    batch.mutable_steps()->add_step(step_);
    batch.mutable_steps()->add_loss(1.0f / static_cast<float>(step_));
    if (Has("gpu")) {
      AddGpuNumbers(batch.mutable_steps());
    }
    SendTelemetry(batch);
    if (const int64_t every = Number("sample", 0); every > 0 && step_ % every == 0) {
      SendSample();
    }
    if (step_ == Number("checkpoint", -1)) {
      TrainerReport saved;
      saved.mutable_checkpoint()->set_attempt(key_->attempt());
      saved.mutable_checkpoint()->set_step(step_);
      saved.mutable_checkpoint()->set_path(absl::StrCat(key_->job_id(), "/", key_->attempt(), "/step-", step_));
      saved.set_after_sequence(Has("old") ? 0 : sequence_);
      saved_ = saved;
      Send(saved);
    }
    SendState();
  }

  static void AddGpuNumbers(ampd::v1::StepColumns* steps) {
    timespec time = {};
    clock_gettime(CLOCK_REALTIME, &time);
    steps->add_time_unix_micros(time.tv_sec * 1'000'000LL + time.tv_nsec / 1000);
    steps->add_data_wait_seconds(0.002F);
    steps->add_flops_per_second(4e14F);
    steps->add_mfu(0.4F);
    steps->add_power_watts(650);
    steps->add_device_utilization(0.7F);
    steps->add_memory_reserved_bytes(64e9F);
    steps->add_allocation_retries(2);
  }

  void SendSample() {
    ampd::v1::TelemetryBatch batch;
    ampd::v1::Sample& sample = *batch.add_samples();
    sample.set_attempt_sequence(++sequence_);
    sample.set_step(step_);
    sample.set_content(std::string(1 << 20, static_cast<char>('a' + step_ % 26)));
    SendTelemetry(batch);
  }

  // Sends a batch, and keeps it until it is acknowledged. REQUIRES: the last record of the batch is the newest record
  // of all, whose number is sequence_.
  void SendTelemetry(const ampd::v1::TelemetryBatch& batch) {
    kept_[sequence_] = batch;
    TrainerReport report;
    *report.mutable_telemetry() = batch;
    Send(report);
  }

  void End(Outcome::Kind kind) {
    Outcome outcome;
    outcome.set_kind(kind);
    outcome.set_reason(kind == Outcome::FINISHED ? ampd::v1::Reason::SUCCEEDED_NORMALLY
                                                 : ampd::v1::Reason::USER_PAUSED);
    outcome.set_last_step(step_);
    outcome.set_last_sequence(sequence_);
    outcome_ = outcome;
    SendOutcome();
  }

  void SendAll() {
    TrainerReport report;
    report.mutable_hello()->set_protocol(1);
    report.mutable_hello()->set_pid(getpid());
    report.mutable_hello()->set_ready(true);
    report.mutable_hello()->set_device_error(
        ampd::ReadFile(folder_ + "/../../device_error", 1 << 10).value_or(std::string()));
    if (key_.has_value()) {
      *report.mutable_hello()->mutable_key() = *key_;
    }
    Send(report);
    if (!key_.has_value()) {
      return;
    }
    SendState();
    if (!Has("old")) {
      SendEnds();
    }
    for (const auto& [sequence, batch] : kept_) {
      TrainerReport telemetry;
      *telemetry.mutable_telemetry() = batch;
      Send(telemetry);
    }
    if (Has("old")) {
      SendEnds();
    }
  }

  void SendEnds() {
    if (saved_.has_value()) {
      Send(*saved_);
    }
    SendOutcome();
  }

  void SendState() {
    TrainerReport report;
    report.mutable_state()->set_state(step_ > 0 ? Attempt::RUNNING : Attempt::STARTING);
    report.mutable_state()->set_step(step_);
    report.mutable_state()->set_precision("fp32");
    Send(report);
  }

  void SendOutcome() {
    if (outcome_.has_value()) {
      TrainerReport report;
      *report.mutable_outcome() = *outcome_;
      report.set_after_sequence(Has("old") ? 0 : sequence_);
      Send(report);
    }
  }

  void Send(const TrainerReport& report) {
    if (agent_.ok() && !ampd::WriteFrame(agent_.get(), report).ok()) {
      agent_.Reset();
    }
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  const std::string folder_;
  ampd::UniqueFd listener_;
  ampd::UniqueFd agent_;
  std::unique_ptr<std::FILE, Close> steps_;
  std::map<std::string, std::string> script_;
  std::optional<ampd::v1::AttemptKey> key_;
  std::optional<Outcome> outcome_;
  std::optional<TrainerReport> saved_;
  std::map<uint64_t, ampd::v1::TelemetryBatch> kept_;  // by sequence
  int64_t step_ = 0;
  int64_t next_step_nanos_ = 0;
  uint64_t sequence_ = 0;
  int exit_code_ = -1;
  bool leave_ = false;
  bool may_exit_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--spawn-folder") == 0) {
      folder = argv[i + 1];
    }
  }
  struct sigaction action = {};
  action.sa_handler = [](int) { terminated = 1; };
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return ScriptedTrainer(folder).Run();
}
