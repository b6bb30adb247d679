#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"

namespace ampd::data {

// The batches of a training run, or a rank's parts of them, in the sampler's order, gathered ahead of their use on
// threads of its own. How far and by how many shows nowhere: the cursor is that of what was given out, and a batch
// depends on its place alone. Single-threaded: owner the training loop.
//
//   Start -> [Next | Seek]* -> the destructor, which ends the threads
class Batcher {
 public:
  // The samples at `indices` in `epoch`. Called on the batcher's threads and the caller's, by several at a time. What
  // it throws is thrown by the Next() that would have had the batch.
  using Gather = std::function<Dataset::Samples(const std::vector<int64_t>& indices, int64_t epoch)>;

  // Both are positive. Who asks for a batch that is not there gathers one that nobody has taken on, and waits only
  // where there is none. Of many batches a thread takes on several at a time, next to each other, and hands them over
  // together: to wake a thread takes longer than to gather a small batch.
  struct Ahead {
    size_t batches = 1;  // so many at most are gathered or held that were not asked for
    size_t threads = 1;
  };

  struct Batch {
    Dataset::Samples samples;
    Sampler::Cursor place;  // where Seek finds it again
  };

  Batcher(const Sampler::Options& options, Gather gather, const Ahead& ahead);
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
  // A batch that is to be gathered, or was.
  struct Item {
    std::vector<int64_t> indices;
    Sampler::Cursor place;
    Sampler::Cursor next;
    Dataset::Samples samples;
    std::exception_ptr error;  // instead of samples
  };

  // What a thread has taken on.
  struct Order {
    std::vector<Item> items;   // its thread's until they are gathered
    bool is_gathered = false;  // guarded by mutex_
  };

  void Run();
  std::shared_ptr<Order> TakeOrder();
  std::shared_ptr<Order> TakeOwnOrder();
  std::shared_ptr<Order> NewOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GatherAll(Order& order);
  std::vector<Item> AwaitItems();

  // So few that there are orders enough for everyone, and one to go on with while another one's thread has no core.
  size_t items_an_order() const { return std::max<size_t>(1, ahead_.batches / 8); }
  // Beside the one that is being given out, of which the first item is no longer ahead.
  size_t most_orders() const { return (ahead_.batches + 1 - items_an_order()) / items_an_order(); }

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return orders_.size() < most_orders(); }
  bool MayGather() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || HasRoom(); }
  bool IsReady() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !orders_.empty() && orders_.front()->is_gathered;
  }

  const Sampler::Options options_;
  const Gather gather_;
  const Ahead ahead_;
  Sampler::Cursor cursor_;
  std::vector<Item> items_;  // handed over and not given out, the next one last

  absl::Mutex mutex_;
  std::optional<Sampler> sampler_ ABSL_GUARDED_BY(mutex_);             // made by the first thread: it shuffles
  std::optional<Sampler::Cursor> seek_ ABSL_GUARDED_BY(mutex_);        // that the sampler has not followed
  std::deque<std::shared_ptr<Order>> orders_ ABSL_GUARDED_BY(mutex_);  // behind items_; one that Seek dropped is void
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace ampd::data
