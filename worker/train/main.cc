// ampd-trainer: trains one attempt for the agent that started it, under a shim.
#include <signal.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ipc/compute_lease.h"
#include "base/ipc/signals.h"
#include "base/version.h"
#include "worker/train/loop/run_attempt.h"
#include "worker/train/report/agent_link.h"
#include "worker/train/report/step_log.h"
#include "worker/train/report/telemetry_outbox.h"
#include "worker/train/report/torch_warnings.h"
#include "worker/train/report/trainer_log.h"

namespace {

struct Flags {
  std::string spawn_folder;
  std::string device = "cpu";
  bool step_log = false;
  int outcome_wait_seconds = 3600;
  std::optional<int> steps_ahead;
  bool no_cuda_graph = false;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "ampd-trainer: %s\n", status.ToString().c_str());
  return 1;
}

int Run(const Flags& flags) {
  const auto lease = ampd::ComputeLease::Inherit();
  if (!lease.ok()) {
    return Fail(lease.status());
  }
  std::signal(SIGHUP, SIG_IGN);
  ampd::SignalThread signals({SIGTERM, SIGINT});
  ampd::train::StepLog step_log;
  if (flags.step_log) {
    auto opened = ampd::train::StepLog::Open(flags.spawn_folder + "/steps.log");
    if (!opened.ok()) {
      return Fail(opened.status());
    }
    step_log = *std::move(opened);
  }
  const ampd::train::TorchWarnings warnings;
  const auto device = ampd::train::WarmUp(flags.device);
  if (!device.ok()) {
    std::fprintf(stderr, "ampd-trainer: %s can't be used: %s\n", flags.device.c_str(),
                 std::string(device.status().message()).c_str());
  }
  ampd::train::TelemetryOutbox outbox({.spill_path = flags.spawn_folder + "/telemetry"});
  ampd::train::AgentLink link(flags.spawn_folder, outbox);
  link.SetDeviceError(std::string(device.status().message()));
  if (const absl::Status status = link.Start(); !status.ok()) {
    return Fail(status);
  }
  signals.Start([&link](int) {
    ampd::internal::LeaveAttempt leave;
    leave.set_desired(ampd::v1::Job::PAUSE);
    leave.set_reason(ampd::v1::Reason::WORKER_DRAINED);
    link.Stop(leave);
  });
  const auto start = link.WaitForStart(absl::InfiniteDuration());
  if (!start.has_value()) {
    return 0;
  }
  ampd::train::JoinTrace(start->traceparent());
  const ampd::v1::Outcome outcome = ampd::train::RunAttempt(*start, device, link, outbox,
                                                            {.step_log = step_log,
                                                             .lease = *lease,
                                                             .scratch_folder = flags.spawn_folder,
                                                             .steps_ahead = flags.steps_ahead,
                                                             .cuda_graph = !flags.no_cuda_graph});
  const absl::Duration wait = absl::Seconds(flags.outcome_wait_seconds);
  return link.ReportOutcome(outcome, ampd::SystemClock().SinceBoot() + wait) ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains one attempt. Started by ampd-worker.", "ampd-trainer");
  Flags flags;
  app.add_option("--spawn-folder", flags.spawn_folder, "where the socket is")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", flags.device, "the device to compute on: cpu or gpu<n>");
  app.add_flag("--step-log", flags.step_log, "write steps.log into the spawn folder: a line for every step started");
  app.add_option("--outcome-wait-seconds", flags.outcome_wait_seconds, "how long the outcome waits for the agent");
  app.add_option("--steps-ahead", flags.steps_ahead,
                 "steps begun before the numbers of another are read; 1 on a GPU and 0 on a CPU unless given")
      ->check(CLI::Range(0, 1));
  app.add_flag("--no-cuda-graph", flags.no_cuda_graph, "run every step on a GPU op by op");
  app.set_version_flag("--version", ampd::VersionLine("ampd-trainer"));
  CLI11_PARSE(app, argc, argv);
  umask(0077);  // Only the worker's user may read checkpoints and the files in the spawn folder.
  return Run(flags);
}
