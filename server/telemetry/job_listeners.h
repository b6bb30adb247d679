#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ampd::server {

// The listeners of each job. Holds only weak references: a listener leaves when its last owner releases it. Jobs whose
// listeners have all left are forgotten when the table has doubled, so the table has at most twice as many jobs as have
// listeners, or kMinJobs. Thread-compatible.
template <typename Listener>
class JobListeners {
 public:
  static constexpr size_t kMinJobs = 64;

  void Add(const std::string& job, const std::shared_ptr<Listener>& listener) {
    if (by_job_.size() >= forget_at_) {
      std::erase_if(by_job_, [](const auto& entry) {
        return std::all_of(entry.second.begin(), entry.second.end(), [](const auto& one) { return one.expired(); });
      });
      forget_at_ = std::max(kMinJobs, 2 * by_job_.size());
    }
    std::vector<std::weak_ptr<Listener>>& of_job = by_job_[job];
    std::erase_if(of_job, [](const auto& one) { return one.expired(); });
    of_job.push_back(listener);
  }

  // Returns the job's listeners. Forgets the job if it has none.
  std::vector<std::shared_ptr<Listener>> Of(const std::string& job) {
    const auto found = by_job_.find(job);
    if (found == by_job_.end()) {
      return {};
    }
    std::vector<std::shared_ptr<Listener>> alive;
    AddAlive(found->second, &alive);
    if (alive.empty()) {
      by_job_.erase(found);
    } else {
      found->second.assign(alive.begin(), alive.end());
    }
    return alive;
  }

  std::vector<std::shared_ptr<Listener>> All() const {
    std::vector<std::shared_ptr<Listener>> alive;
    for (const auto& [job, of_job] : by_job_) {
      AddAlive(of_job, &alive);
    }
    return alive;
  }

  // Whether the job has listeners, or had some that left a short time ago.
  bool Has(const std::string& job) const { return by_job_.contains(job); }
  // Returns the number of jobs for which Has is true.
  size_t num_jobs() const { return by_job_.size(); }

 private:
  static void AddAlive(const std::vector<std::weak_ptr<Listener>>& listeners,
                       std::vector<std::shared_ptr<Listener>>* alive) {
    for (const std::weak_ptr<Listener>& one : listeners) {
      if (std::shared_ptr<Listener> locked = one.lock()) {
        alive->push_back(std::move(locked));
      }
    }
  }

  std::unordered_map<std::string, std::vector<std::weak_ptr<Listener>>> by_job_;
  size_t forget_at_ = kMinJobs;  // The number of jobs at which Add forgets those without listeners.
};

}  // namespace ampd::server
