#include "worker/agent/attempts/attempt_list.h"

#include <algorithm>

namespace ampd::agent {

AttemptOnWorker& AttemptList::Add(const v1::AttemptKey& key) {
  items_.push_back(std::make_unique<AttemptOnWorker>());
  items_.back()->held.key = key;
  return *items_.back();
}

void AttemptList::RemoveIf(const std::function<bool(const AttemptOnWorker&)>& condition) {
  std::erase_if(items_, [&](const std::unique_ptr<AttemptOnWorker>& item) { return condition(*item); });
}

AttemptOnWorker* AttemptList::Find(const v1::AttemptKey& key) const {
  const auto found =
      std::find_if(begin(), end(), [&](const auto& attempt) { return SameAttempt(attempt->held.key, key); });
  return found == end() ? nullptr : found->get();
}

AttemptOnWorker* AttemptList::FindBySpawn(const std::string& spawn_id) const {
  const auto found = std::find_if(begin(), end(), [&](const auto& attempt) { return attempt->spawn_id == spawn_id; });
  return found == end() ? nullptr : found->get();
}

void AttemptList::AddTo(v1::WorkerReport* report, absl::Duration now) const {
  for (const std::unique_ptr<AttemptOnWorker>& attempt : items_) {
    if (!attempt->held.forgotten) {
      *report->add_attempts() = ReportOf(*attempt, now);
    }
  }
  for (const v1::AttemptKey& key : waiting_) {
    v1::AttemptReport& waiting = *report->add_attempts();
    *waiting.mutable_key() = key;
    waiting.set_state(v1::Attempt::ASSIGNED);
  }
}

std::vector<HeldAttempt> AttemptList::Held() const {
  std::vector<HeldAttempt> held;
  for (const std::unique_ptr<AttemptOnWorker>& attempt : items_) {
    held.push_back(attempt->held);
  }
  return held;
}

}  // namespace ampd::agent
