#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt.h"

namespace ampd::agent {

// The attempts of a worker: those that were started or refused here, and those that wait for their device. Reads no
// clock, and starts nothing. Single-threaded; owner: the agent's loop.
class AttemptList {
 public:
  using Items = std::vector<std::unique_ptr<AttemptOnWorker>>;

  // Adds an attempt. The returned reference is valid until RemoveIf removes this attempt.
  AttemptOnWorker& Add(const v1::AttemptKey& key);
  void RemoveIf(const std::function<bool(const AttemptOnWorker&)>& condition);

  // Finds an attempt by its key; null if there is none.
  AttemptOnWorker* Find(const v1::AttemptKey& key) const;
  AttemptOnWorker* FindBySpawn(const std::string& spawn_id) const;

  // Replaces the attempts that wait for their device. They are reported as ASSIGNED until they start.
  void SetWaiting(std::vector<v1::AttemptKey> keys) { waiting_ = std::move(keys); }

  // Adds the state of all attempts to `report`. `now`: the time since boot.
  void AddTo(v1::WorkerReport* report, absl::Duration now) const;
  std::vector<HeldAttempt> Held() const;

  Items::const_iterator begin() const { return items_.begin(); }
  Items::const_iterator end() const { return items_.end(); }
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }

 private:
  Items items_;
  std::vector<v1::AttemptKey> waiting_;
};

}  // namespace ampd::agent
