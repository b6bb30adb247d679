#include "worker/agent/agent.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

// Poll interval while the agent waits for something without an event: a socket that does not exist yet, a growing log.
constexpr absl::Duration kBusyWake = absl::Milliseconds(20);
constexpr absl::Duration kIdleWake = absl::Milliseconds(500);
// A stopping agent waits this long for the server to acknowledge its announcement.
constexpr absl::Duration kAnnounceTime = absl::Seconds(1);

}  // namespace

Agent::Agent(Options options)
    : options_(std::move(options)),
      incarnation_(RandomId(*options_.random, 16)),
      remover_(options_.checkpoint_root, options_.state_folder + "/removals", options_.log),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Agent::~Agent() = default;

absl::Status Agent::Start() {
  LookAtDevices();
  remover_.Load();
  for (SpawnFolder& folder : SpawnFolder::List(options_.state_folder)) {
    const std::string id = folder.record().spawn_id();
    std::unique_ptr<SpawnedTrainer> trainer = SpawnedTrainer::Find(std::move(folder));
    ++options_.counters->num_trainers_adopted;
    if (trainer->bound()) {
      auto attempt = std::make_unique<AttemptOnWorker>();
      attempt->held.key = trainer->record().key();
      attempt->held.device = trainer->record().device();
      attempt->spawn_id = id;
      attempts_.push_back(std::move(attempt));
    }
    trainers_[id] = std::move(trainer);
  }
  // Poll each once, so that the first report includes their state and those that have ended.
  PollTrainers(options_.clock->SinceBoot());
  return absl::OkStatus();
}

void Agent::Stop() {
  stop_ = true;
  const uint64_t one = 1;
  (void)!write(stop_fd_.get(), &one, sizeof(one));
}

void Agent::Run() {
  while (!stop_ || (IsLeaving() && Stopping(options_.clock->SinceBoot())) || Announcing(options_.clock->SinceBoot())) {
    Turn();
  }
}

void Agent::Turn() {
  std::vector<pollfd> descriptors = Descriptors();
  const absl::Duration before = options_.clock->SinceBoot();
  const absl::Duration wait = std::max(NextWake(before) - before, absl::ZeroDuration());
  poll(descriptors.data(), descriptors.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)));
  uint64_t ignored = 0;
  (void)!read(options_.link->wake_fd(), &ignored, sizeof(ignored));
  (void)!read(stop_fd_.get(), &ignored, sizeof(ignored));
  (void)!read(options_.artifacts->wake_fd(), &ignored, sizeof(ignored));
  TakeArrivals();
  WantArtifacts();
  const absl::Duration now = options_.clock->SinceBoot();
  ReapShims();
  PollTrainers(now);
  if (std::exchange(reconcile_again_, false) && directive_.has_id()) {
    Take(directive_, /*again=*/true);
  }
  Release(now);
  if (!stop_) {
    KeepWarm(now);
  }
  MaybeReport(now);
}

absl::Duration Agent::NextWake(absl::Duration now) const {
  absl::Duration wake = now + kIdleWake;
  for (const auto& [id, trainer] : trainers_) {
    const bool connected = trainer->shim_channel().connected() && trainer->trainer_channel().connected();
    wake = std::min(wake, connected ? wake : now + kBusyWake);
  }
  if (attached_) {
    wake = std::min(wake, report_due_ ? now : next_report_);
  }
  return wake;
}

std::vector<pollfd> Agent::Descriptors() const {
  std::vector<pollfd> descriptors = {
      {options_.link->wake_fd(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}, {options_.artifacts->wake_fd(), POLLIN, 0}};
  for (const int shim : shims_.Descriptors()) {
    descriptors.push_back({shim, POLLIN, 0});
  }
  for (const auto& [id, trainer] : trainers_) {
    const auto attempt = std::find_if(attempts_.begin(), attempts_.end(),
                                      [&, spawn = id](const auto& item) { return item->spawn_id == spawn; });
    const bool blocked = attempt != attempts_.end() && (*attempt)->telemetry.full();
    for (const FrameChannel* channel : {&trainer->shim_channel(), &trainer->trainer_channel()}) {
      if (channel->connected() && !(blocked && channel == &trainer->trainer_channel())) {
        descriptors.push_back(
            {channel->fd(), static_cast<short>(POLLIN | (channel->wants_to_write() ? POLLOUT : 0)), 0});
      }
    }
  }
  return descriptors;
}

void Agent::TakeArrivals() {
  const ServerLink::Arrivals arrivals = options_.link->Take();
  if (arrivals.is_replaced) {
    MakeWay();
  }
  if (arrivals.num_attach_streams > 0) {
    options_.counters->num_attach_streams += arrivals.num_attach_streams;
    attached_ = true;
    attach_told_ = false;
    Changed();
  }
  for (std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    if (arrivals.num_telemetry_streams > 0) {
      attempt->telemetry.Rewind();
      attempt->log_sent_bytes = attempt->log_stored_bytes;
    }
  }
  for (const v1::WorkerDirective& directive : arrivals.directives) {
    ++options_.counters->num_directives;
    Take(directive, /*again=*/false);
  }
  for (const v1::TelemetryAck& ack : arrivals.acks) {
    TakeAck(ack);
  }
}

void Agent::MaybeReport(absl::Duration now) {
  if (!attached_ || (!report_due_ && now < next_report_)) {
    return;
  }
  report_due_ = false;
  next_report_ = now + report_interval_;
  ++options_.counters->num_reports;
  options_.link->SendReport(BuildReport());
}

bool Agent::IsLeaving() const { return stop_ && options_.stop_trainers_on_exit; }

void Agent::LookAtDevices() {
  devices_ = options_.devices();
  for (v1::Device& device : devices_) {
    if (IsLeaving()) {
      device.set_unhealthy(true);
      device.set_unhealthy_reason("the worker is stopping");
      continue;
    }
    const auto error = device_errors_.find(device.id());
    if (error != device_errors_.end() && !error->second.empty()) {
      device.set_unhealthy(true);
      device.set_unhealthy_reason(error->second);
    }
  }
}

v1::WorkerReport Agent::BuildReport() {
  LookAtDevices();
  v1::WorkerReport report;
  report.set_worker(options_.name);
  report.set_incarnation(incarnation_);
  *report.mutable_agent() = options_.identity;
  report.set_sequence(++report_sequence_);
  *report.mutable_reflected() = directive_.id();
  report.mutable_devices()->Assign(devices_.begin(), devices_.end());
  for (const std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    if (!attempt->held.forgotten) {
      *report.add_attempts() = ReportOf(*attempt, options_.clock->SinceBoot());
    }
  }
  for (const v1::AttemptKey& key : waiting_) {
    v1::AttemptReport& waiting = *report.add_attempts();
    *waiting.mutable_key() = key;
    waiting.set_state(Attempt::ASSIGNED);
  }
  report.set_yields(yields_);
  if (stop_) {
    report.set_stopping(true);
    announced_ = announced_ > 0 ? announced_ : report.sequence();
  }
  report.set_version(options_.version);
  report.set_metrics_address(options_.metrics_address);
  report.set_checkpoint_root_shared(options_.checkpoint_root_shared);
  for (const auto& [name, folder] : options_.data_roots) {
    report.add_data_roots(name);
  }
  // Set last: the lease counts from this time, so it must not be later than the sending.
  last_sent_boottime_nanos_ = absl::ToInt64Nanoseconds(options_.clock->SinceBoot());
  report.set_send_boottime_nanos(last_sent_boottime_nanos_);
  return report;
}

// Whether the agent should still wait for the server to learn that it stops; until then the server may assign it work.
bool Agent::Announcing(absl::Duration now) {
  if (!announce_until_.has_value()) {
    announce_until_ = now + kAnnounceTime;
    Changed();
  }
  const bool is_known = announced_ > 0 && directive_.acknowledged_report() >= announced_;
  return attached_ && !is_known && now < *announce_until_;
}

// Two agents with one id can't both be the worker. This one was displaced, and attaches again as one that yields.
void Agent::MakeWay() {
  if (!std::exchange(yields_, true)) {
    options_.log(absl::StrCat("another agent took over as worker ", options_.name,
                              " with the id of this one's state folder ", options_.state_folder,
                              ": the folder was copied. Give the copy a --name and an empty --state-dir of its own. "
                              "This agent waits until the other one is gone; what it runs stands still meanwhile"));
  }
  incarnation_ = RandomId(*options_.random, 16);
  report_sequence_ = 0;
}

// Whether the stopping agent must keep waiting for its trainers.
bool Agent::Stopping(absl::Duration now) {
  if (!leave_until_.has_value()) {
    leave_until_ = now + options_.exit_grace;
    LeaveAll(now);
  }
  const bool all_told =
      std::all_of(attempts_.begin(), attempts_.end(), [](const auto& item) { return item->held.forgotten; });
  if (!killed_all_ && ((all_told && attempts_.empty()) || now >= *leave_until_)) {
    killed_all_ = true;
    leave_until_ = now + options_.cancel_grace;
    for (const auto& [id, trainer] : trainers_) {
      trainer->Kill();
    }
  }
  return !trainers_.empty() && now < *leave_until_ + options_.cancel_grace;
}

void Agent::LeaveAll(absl::Duration now) {
  for (std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    if (attempt->held.state != Attempt::ENDED) {
      Leave(*attempt, Job::PAUSE, v1::WORKER_DRAINED);
      attempt->kill_at = now + options_.exit_grace;
    }
  }
}

}  // namespace ampd::agent
