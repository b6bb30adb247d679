#include "worker/agent/agent.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/agent/ready_file.h"

namespace ampd::agent {
namespace {

// Poll interval while the agent waits for something that no file descriptor signals, such as a socket that does not
// exist yet.
constexpr absl::Duration kBusyWake = absl::Milliseconds(20);
constexpr absl::Duration kIdleWake = absl::Milliseconds(500);
// How long a stopping agent waits until its warm trainers have ended. The shims kill them at once, so this is enough.
constexpr absl::Duration kWarmEndTime = absl::Seconds(2);
// How long a stopping agent waits for the server to acknowledge the report that announces the stop.
constexpr absl::Duration kAnnounceTime = absl::Seconds(1);

Reporter::Options ReporterOptions(const Agent::Options& options) {
  Reporter::Options reporter;
  reporter.name = options.name;
  reporter.version = options.version;
  reporter.metrics_address = options.metrics_address;
  reporter.identity = options.identity;
  reporter.state_folder = options.state_folder;
  reporter.checkpoint_root_shared = options.checkpoint_root_shared;
  reporter.data_roots = options.data_roots;
  reporter.tenants = options.tenants;
  reporter.log = options.log;
  reporter.clock = options.clock;
  reporter.random = options.random;
  reporter.link = options.link;
  return reporter;
}

}  // namespace

Agent::Agent(Options options)
    : options_(std::move(options)),
      reporter_(ReporterOptions(options_)),
      trainers_(PoolOptions()),
      runner_(RunnerOptions()),
      uploads_(UploadOptions()),
      removals_(CheckpointRemover(options_.checkpoint_root, options_.state_folder + "/removals", options_.log)),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

TrainerPool::Options Agent::PoolOptions() {
  TrainerPool::Options pool;
  pool.state_folder = options_.state_folder;
  pool.command = options_.command;
  pool.warm = options_.warm;
  pool.log = options_.log;
  pool.on_start = [this] { ++options_.counters->num_trainers_started; };
  pool.on_device_change = [this] { reporter_.ReportSoon(); };
  pool.random = options_.random;
  return pool;
}

AttemptRunner::Options Agent::RunnerOptions() {
  AttemptRunner::Options runner;
  runner.checkpoint_root = options_.checkpoint_root;
  runner.checkpoint_root_shared = options_.checkpoint_root_shared;
  for (const auto& [name, root] : options_.data_roots) {
    runner.data_roots[name] = root.folder;
  }
  runner.data_group = options_.data_group;
  runner.cancel_grace = options_.cancel_grace;
  runner.leave_grace = options_.leave_grace;
  runner.log = options_.log_attempt;
  runner.report_soon = [this] { reporter_.ReportSoon(); };
  runner.on_end = [this](const v1::Outcome& outcome) {
    options_.counters->num_out_of_memory += outcome.reason() == v1::Reason::OUT_OF_MEMORY ? 1 : 0;
  };
  runner.clock = options_.clock;
  runner.random = options_.random;
  runner.artifacts = options_.artifacts;
  runner.attempts = &attempts_;
  runner.trainers = &trainers_;
  runner.devices = &devices_;
  runner.times = options_.times;
  return runner;
}

AttemptUploads::Options Agent::UploadOptions() {
  AttemptUploads::Options uploads;
  uploads.worker = options_.name;
  uploads.link = options_.link;
  uploads.attempts = &attempts_;
  uploads.trainers = &trainers_;
  uploads.report_soon = [this] { reporter_.ReportSoon(); };
  return uploads;
}

void Agent::Start() {
  UpdateDevices();
  removals_.Start();
  trainers_.Adopt();
  options_.counters->num_trainers_adopted += static_cast<int64_t>(trainers_.trainers().size());
  runner_.Adopt();
  // Poll each trainer once before the first report. The report then includes the states of running trainers, and the
  // attempts whose trainers have exited.
  runner_.Poll(options_.clock->SinceBoot());
}

void Agent::Stop() {
  stop_ = true;
  const uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
}

void Agent::Run() {
  const auto now = [this] { return options_.clock->SinceBoot(); };
  while (!stop_ || AwaitWarmTrainers(now()) || (StopsTrainers() && AwaitTrainers(now())) || AwaitAnnouncement(now())) {
    RunOnce();
  }
  removals_.Stop();
}

void Agent::RunOnce() {
  Wait();
  ReceiveArrivals();
  const absl::Duration now = options_.clock->SinceBoot();
  trainers_.Reap();
  runner_.Poll(now);
  uploads_.SendAll(now);
  options_.counters->num_attempts = static_cast<int64_t>(attempts_.size());
  if (runner_.ConsumeReconcileRequest() && directive_.has_id()) {
    ReconcileWith(directive_, /*again=*/true);
  }
  runner_.Release(now);
  if (!stop_) {
    trainers_.KeepWarm(devices_, now);
  }
  if (reporter_.NextReport(now) <= now) {
    SendReport(now);
  }
}

void Agent::Wait() {
  std::vector<pollfd> descriptors =
      trainers_.Descriptors([this](const SpawnedTrainer& trainer) { return runner_.IsBlocked(trainer); });
  const std::vector<int> events = {options_.link->wake_fd(), stop_fd_.get(), options_.artifacts->wake_fd()};
  for (const int event : events) {
    descriptors.push_back({event, POLLIN, 0});
  }
  const absl::Duration now = options_.clock->SinceBoot();
  const absl::Duration wake =
      std::min(now + (trainers_.IsConnected() ? kIdleWake : kBusyWake), reporter_.NextReport(now));
  poll(descriptors.data(), descriptors.size(), static_cast<int>(absl::ToInt64Milliseconds(wake - now)));
  for (const int event : events) {
    uint64_t ignored = 0;
    (void)!read(event, &ignored, sizeof(ignored));
  }
}

void Agent::ReceiveArrivals() {
  const ServerLink::Arrivals arrivals = options_.link->ReceiveArrivals();
  if (arrivals.is_replaced) {
    reporter_.OnReplaced();
  }
  if (arrivals.num_attach_streams > 0) {
    options_.counters->num_attach_streams += arrivals.num_attach_streams;
    reporter_.OnStreamOpened();
  }
  if (arrivals.num_telemetry_streams > 0) {
    uploads_.OnStreamOpened();
  }
  for (const v1::WorkerDirective& directive : arrivals.directives) {
    OnDirective(directive);
  }
  for (const v1::TelemetryAck& ack : arrivals.acks) {
    uploads_.OnAck(ack, options_.clock->SinceBoot());
  }
}

void Agent::OnDirective(const v1::WorkerDirective& directive) {
  ++options_.counters->num_directives;
  ReconcileWith(directive, /*again=*/false);
}

Holdings Agent::CurrentHoldings() const {
  Holdings holdings;
  holdings.attempts = attempts_.Held();
  holdings.devices = devices_;
  holdings.reflected = directive_.id();
  holdings.last_sent_boottime_nanos = reporter_.last_send_boottime_nanos();
  holdings.lease_deadline = lease_deadline_;
  holdings.removals = removals_.Due(options_.clock->SinceBoot());
  return holdings;
}

void Agent::ReconcileWith(const v1::WorkerDirective& directive, bool again) {
  const Actions actions = Reconcile(CurrentHoldings(), directive, again);
  if (actions.stale) {
    return;
  }
  if (!again) {
    if (reporter_.OnDirective(directive)) {
      OnAccepted();
    }
    directive_ = directive;
    options_.files->Send({directive.send_files().begin(), directive.send_files().end()});
  }
  lease_deadline_ = actions.lease_deadline;
  options_.counters->lease_deadline_nanos = absl::ToInt64Nanoseconds(lease_deadline_);
  // While the worker stops, new attempts wait instead of starting. If one started, the worker would soon kill it, or
  // exit and leave it without an agent. The server gives a waiting attempt to another worker, or to this one after
  // its restart.
  runner_.Apply(actions, directive, /*may_start=*/!stop_);
  removal_request_ = removals_.Request(actions.remove, actions.remove_later, options_.clock->SinceBoot());
}

void Agent::OnAccepted() {
  if (!options_.ready_file.empty()) {
    const absl::Status written = WriteReadyFile(options_.ready_file, options_.metrics_address, devices_);
    if (!written.ok()) {
      options_.log(absl::StrCat("can't write --ready-file ", options_.ready_file, ": ", written.message()));
    }
  }
  const auto describe = [](std::string* text, const v1::Device& device) {
    absl::StrAppend(text, DescribeDevice(device));
  };
  options_.log("the server accepted this worker: " + absl::StrJoin(devices_, "; ", describe));
}

void Agent::UpdateDevices() {
  devices_ = options_.devices();
  trainers_.MarkUnusable(&devices_);
  if (StopsTrainers()) {
    for (v1::Device& device : devices_) {
      device.set_unhealthy(true);
      device.set_unhealthy_reason("the worker is stopping");
    }
  }
}

void Agent::UpdateReflected() {
  if (removals_.num_done() >= removal_request_) {
    reflected_ = directive_.id();
  } else if (reflected_.epoch() != directive_.id().epoch()) {
    // The server's epoch is reported at once, so that a server with an older epoch learns that it was replaced.
    reflected_.set_epoch(directive_.id().epoch());
    reflected_.set_number(0);
  }
}

void Agent::SendReport(absl::Duration now) {
  UpdateDevices();
  UpdateReflected();
  v1::WorkerReport report;
  *report.mutable_reflected() = reflected_;
  report.mutable_devices()->Assign(devices_.begin(), devices_.end());
  attempts_.AddTo(&report, options_.clock->SinceBoot());
  report.set_stopping(stop_);
  ++options_.counters->num_reports;
  reporter_.Send(std::move(report), now);
}

bool Agent::AwaitWarmTrainers(absl::Duration now) {
  if (!warm_until_.has_value()) {
    warm_until_ = now + kWarmEndTime;
    trainers_.KillWarm();
  }
  return trainers_.HasWarm() && now < *warm_until_;
}

bool Agent::AwaitAnnouncement(absl::Duration now) {
  if (!announce_until_.has_value()) {
    announce_until_ = now + kAnnounceTime;
    reporter_.ReportSoon();
  }
  return reporter_.is_attached() && !reporter_.StopIsKnown() && now < *announce_until_;
}

bool Agent::AwaitTrainers(absl::Duration now) {
  if (!leave_until_.has_value()) {
    leave_until_ = now + options_.exit_grace;
    runner_.LeaveAll(v1::Reason::WORKER_DRAINED, *leave_until_);
  }
  if (!killed_all_ && (attempts_.empty() || now >= *leave_until_)) {
    killed_all_ = true;
    leave_until_ = now + options_.cancel_grace;
    trainers_.KillAll();
  }
  return !trainers_.empty() && (!killed_all_ || now < *leave_until_);
}

}  // namespace ampd::agent
