#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"

namespace ampd::data {

// The batches of a training run in the sampler's order, gathered ahead of their use on a thread of their own. How far
// it is ahead shows nowhere: the cursor is that of what was given out, and a batch depends on its place alone. Single-
// threaded: owner the training loop.
//
//   Start -> [Next | Seek]* -> the destructor, which ends the thread
class Batcher {
 public:
  // The samples at `indices` in `epoch`. Called on the batcher's thread, one call at a time. What it throws is thrown
  // by the Next() that would have had the batch.
  using Gather = std::function<Dataset::Samples(const std::vector<int64_t>& indices, int64_t epoch)>;

  struct Batch {
    Dataset::Samples samples;
    Sampler::Cursor place;  // where Seek finds it again
  };

  // At most `max_ahead` batches are gathered or held that were not asked for. REQUIRES: it is positive.
  Batcher(const Sampler::Options& options, Gather gather, size_t max_ahead);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // REQUIRES: called once, before Next.
  void Start();

  // The batch at cursor(). Waits until it is gathered.
  Batch Next();

  // The place of the batch that comes next.
  const Sampler::Cursor& cursor() const { return cursor_; }

  // Goes on at `cursor`, and forgets what was gathered. False, changing nothing, when no run with these options can be
  // there.
  bool Seek(const Sampler::Cursor& cursor);

 private:
  struct Gathered {
    Dataset::Samples samples;
    std::exception_ptr error;  // instead of samples
    Sampler::Cursor place;
    Sampler::Cursor next;
  };
  // What the thread does next: one batch, behind the last or at another place.
  struct Order {
    std::optional<Sampler::Cursor> seek;
    uint64_t generation = 0;
  };

  void Run();
  std::optional<Order> AwaitOrder();
  void Deliver(Gathered gathered, uint64_t generation);
  bool MayGather() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || ready_.size() < max_ahead_; }
  bool IsReady() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ready_.empty(); }

  const Sampler::Options options_;
  const Gather gather_;
  const size_t max_ahead_;
  Sampler::Cursor cursor_;

  absl::Mutex mutex_;
  std::deque<Gathered> ready_ ABSL_GUARDED_BY(mutex_);
  std::optional<Sampler::Cursor> seek_ ABSL_GUARDED_BY(mutex_);  // that the thread has not seen
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;              // of seeks; what is gathered in an older one is void
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace ampd::data
