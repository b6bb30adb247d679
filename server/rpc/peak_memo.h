#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/job.pb.h"

namespace ampd::server {

// Caches the predicted memory peaks of attempts, so that a job is estimated only once even if clients request it
// repeatedly. Keeps at most kMaxPeaks entries; when the cache is full, drops all of them. Thread-safe.
class PeakMemo {
 public:
  static constexpr size_t kMaxPeaks = 4096;

  // Returns the predicted peak of the job's newest attempt; nullopt if it is not cached. REQUIRES: the job has an
  // attempt.
  std::optional<int64_t> Find(const v1::Job& job) const {
    absl::MutexLock lock(&mutex_);
    const auto found = peaks_.find(KeyOf(job));
    return found == peaks_.end() ? std::nullopt : std::optional(found->second);
  }

  void Put(const v1::Job& job, int64_t peak_bytes) {
    absl::MutexLock lock(&mutex_);
    if (peaks_.size() >= kMaxPeaks) {
      peaks_.clear();
    }
    peaks_[KeyOf(job)] = peak_bytes;
  }

 private:
  // The key of a cached peak: job, attempt and precision. The precision may change within an attempt.
  using Key = std::tuple<std::string, int, std::string>;
  static Key KeyOf(const v1::Job& job) { return {job.id(), job.attempts_size(), job.attempts().rbegin()->precision()}; }

  mutable absl::Mutex mutex_;
  std::map<Key, int64_t> peaks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
