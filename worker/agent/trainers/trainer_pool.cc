#include "worker/agent/trainers/trainer_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd::agent {
namespace {

// Minimum interval between starts of warm trainers on one device.
constexpr absl::Duration kWarmInterval = absl::Seconds(5);
// Minimum interval between starts of warm trainers on a device that the last trainer could not use.
constexpr absl::Duration kBrokenDeviceInterval = absl::Minutes(1);
constexpr size_t kMaxErrorBytes = 1000;

}  // namespace

void TrainerPool::Adopt() {
  for (SpawnFolder& folder : SpawnFolder::List(options_.state_folder)) {
    const std::string id = folder.record().spawn_id();
    trainers_[id] = SpawnedTrainer::Adopt(std::move(folder));
  }
}

absl::StatusOr<SpawnedTrainer*> TrainerPool::Assign(const std::string& device, const v1::AttemptKey& key,
                                                    absl::Duration now, const std::string& traceparent) {
  for (const auto& [id, trainer] : trainers_) {
    if (!trainer->bound() && !trainer->killed() && !trainer->exited() && trainer->record().device() == device) {
      if (absl::Status bound = trainer->Bind(key, traceparent); !bound.ok()) {
        OnStartFailed(device, bound, now);
        if (IsUnusable(device)) {
          trainer->Kill();  // A later trainer tests the device.
        }
        return bound;
      }
      return trainer.get();
    }
  }
  internal::SpawnRecord record;
  record.set_device(device);
  *record.mutable_key() = key;
  record.set_traceparent(traceparent);
  absl::StatusOr<SpawnedTrainer*> started = Start(std::move(record));
  if (!started.ok()) {
    OnStartFailed(device, started.status(), now);
  }
  return started;
}

void TrainerPool::OnStartFailed(const std::string& device, const absl::Status& status, absl::Duration now) {
  if (!absl::IsResourceExhausted(status)) {
    const std::string error = absl::StrCat("the worker can't start a trainer: ", std::string(status.message()));
    SetDeviceError(device, Shortened(ValidUtf8(error), kMaxErrorBytes), now);
  }
}

absl::StatusOr<SpawnedTrainer*> TrainerPool::Start(internal::SpawnRecord record) {
  record.set_spawn_id(RandomId(*options_.random, 16));
  record.set_token(RandomId(*options_.random, 26));
  AMPD_ASSIGN_OR_RETURN(std::unique_ptr<SpawnedTrainer> trainer,
                        SpawnedTrainer::Start(options_.state_folder, record, options_.command, shims_));
  options_.on_start();
  SpawnedTrainer* started = trainer.get();
  trainers_[record.spawn_id()] = std::move(trainer);
  return started;
}

SpawnedTrainer* TrainerPool::Find(const std::string& spawn_id) const {
  const auto found = trainers_.find(spawn_id);
  return found == trainers_.end() ? nullptr : found->second.get();
}

void TrainerPool::OnHello(SpawnedTrainer& trainer, const internal::Hello& hello, absl::Duration now) {
  SetDeviceError(trainer.record().device(), hello.device_error(), now);
  // Without options_.warm, a warm trainer exists only to test the device.
  if (!trainer.bound() && (!hello.device_error().empty() || !options_.warm)) {
    trainer.Kill();
  }
}

std::string TrainerPool::OnExit(const SpawnedTrainer& trainer, absl::Duration now) {
  std::string error = trainer.WhyNotReady();
  if (!error.empty()) {
    SetDeviceError(trainer.record().device(), error, now);
  }
  return error;
}

void TrainerPool::CheckWarm(SpawnedTrainer& trainer, absl::Duration now) {
  if (trainer.bound()) {
    return;
  }
  if (trainer.exited()) {
    OnExit(trainer, now);
  } else if (trainer.sent_unreadable() && !trainer.killed()) {
    SetDeviceError(trainer.record().device(), "the trainer sent a report that the worker can't read", now);
    trainer.Kill();
  }
}

void TrainerPool::SetDeviceError(const std::string& device, const std::string& error, absl::Duration now) {
  std::string& known = device_errors_[device];
  if (known != error) {
    known = error;
    options_.log(known.empty() ? absl::StrCat(device, " can be used again")
                               : absl::StrCat(device, " can't be used: ", known));
    options_.on_device_change();
  }
  if (!known.empty()) {
    warm_not_before_[device] = now + kBrokenDeviceInterval;
  }
}

bool TrainerPool::IsUnusable(const std::string& device) const {
  const auto error = device_errors_.find(device);
  return error != device_errors_.end() && !error->second.empty();
}

void TrainerPool::AllowWarm(const std::string& device) {
  if (!IsUnusable(device)) {
    warm_not_before_.erase(device);
  }
}

void TrainerPool::MarkUnusable(std::vector<v1::Device>* devices) const {
  for (v1::Device& device : *devices) {
    if (IsUnusable(device.id())) {
      device.set_unhealthy(true);
      device.set_unhealthy_reason(device_errors_.at(device.id()));
    }
  }
}

void TrainerPool::KeepWarm(const std::vector<v1::Device>& devices, absl::Duration now) {
  for (const v1::Device& device : devices) {
    if (!options_.warm && !IsUnusable(device.id())) {
      continue;
    }
    const bool is_used = std::any_of(trainers_.begin(), trainers_.end(), [&](const auto& entry) {
      return !entry.second->exited() && entry.second->record().device() == device.id();
    });
    absl::Duration& not_before = warm_not_before_[device.id()];
    if (is_used || now < not_before) {
      continue;
    }
    not_before = now + kWarmInterval;
    internal::SpawnRecord record;
    record.set_device(device.id());
    if (absl::StatusOr<SpawnedTrainer*> warm = Start(std::move(record)); !warm.ok()) {
      options_.log(absl::StrCat("can't start a warm trainer on ", device.id(), ": ", warm.status().message()));
      OnStartFailed(device.id(), warm.status(), now);
    }
  }
}

void TrainerPool::Remove(const std::string& spawn_id) {
  if (SpawnedTrainer* trainer = Find(spawn_id); trainer != nullptr) {
    trainer->folder().Remove();
    trainers_.erase(spawn_id);
  }
}

void TrainerPool::RemoveExited(const std::function<bool(const SpawnedTrainer&)>& is_used) {
  std::erase_if(trainers_, [&](const auto& entry) {
    const bool is_left_over = entry.second->exited() && !is_used(*entry.second);
    if (is_left_over) {
      entry.second->folder().Remove();
    }
    return is_left_over;
  });
}

void TrainerPool::KillAll() {
  for (const auto& [id, trainer] : trainers_) {
    trainer->Kill();
  }
}

void TrainerPool::KillWarm() {
  for (const auto& [id, trainer] : trainers_) {
    if (!trainer->bound()) {
      trainer->Kill();
    }
  }
}

bool TrainerPool::HasWarm() const {
  return std::any_of(trainers_.begin(), trainers_.end(),
                     [](const auto& entry) { return !entry.second->bound() && !entry.second->exited(); });
}

// Also reaps orphaned processes, because an agent that is the first process of a container becomes their parent.
void TrainerPool::Reap() {
  shims_.Reap();
  ReapAdopted([](pid_t) { return false; });
}

std::vector<pollfd> TrainerPool::Descriptors(const std::function<bool(const SpawnedTrainer&)>& is_blocked) const {
  std::vector<pollfd> descriptors;
  const auto add = [&](const FrameChannel& channel) {
    if (channel.connected()) {
      descriptors.push_back({channel.fd(), static_cast<short>(POLLIN | (channel.wants_to_write() ? POLLOUT : 0)), 0});
    }
  };
  for (const int shim : shims_.Descriptors()) {
    descriptors.push_back({shim, POLLIN, 0});
  }
  for (const auto& [id, trainer] : trainers_) {
    add(trainer->shim_channel());
    if (!is_blocked(*trainer)) {
      add(trainer->trainer_channel());
    }
  }
  return descriptors;
}

bool TrainerPool::IsConnected() const {
  return std::all_of(trainers_.begin(), trainers_.end(), [](const auto& entry) {
    return entry.second->shim_channel().connected() && entry.second->trainer_channel().connected();
  });
}

}  // namespace ampd::agent
