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

// Returns the batches of a training run, or one rank's parts of them, in the sampler's order. The batcher's own threads
// gather batches ahead, before Next asks for them. The number of threads and of batches gathered ahead does not affect
// the results: cursor() counts only batches that were returned, and the content of a batch depends only on its
// position. Single-threaded; owner: the training loop.
//
//   Start -> [Next | Seek]* -> the destructor, which ends the threads
class Batcher {
 public:
  // Returns the samples at `indices` in `epoch`. May write them into the tensors of `reuse`, which nobody else uses.
  // Called concurrently on the batcher's threads and on the thread that calls Next. If it throws, the Next() that
  // should return the batch rethrows the exception.
  using Gather =
      std::function<Dataset::Samples(const std::vector<int64_t>& indices, int64_t epoch, Dataset::Samples reuse)>;

  // How far ahead batches are gathered. Both numbers are positive. If the next batch is not ready, Next itself gathers
  // batches that no thread has taken yet, and waits only if there are none. If `batches` is large, a thread takes
  // several consecutive batches at a time and hands them over together, because waking a thread takes longer than
  // gathering a small batch.
  struct Ahead {
    size_t batches = 1;  // Maximum number of batches that are gathered before Next asks for them.
    size_t threads = 1;
  };

  struct Batch {
    Dataset::Samples samples;
    Sampler::Cursor place;  // The position of this batch: after Seek(place), Next returns this batch again.
  };

  Batcher(const Sampler::Options& options, Gather gather, const Ahead& ahead);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Starts the threads. REQUIRES: called once, before Next.
  void Start();

  // Returns the batch at cursor(). Waits until it is gathered.
  Batch Next();

  // Gives the memory of samples back, for later batches. REQUIRES: nobody reads the samples any more.
  void Recycle(Dataset::Samples samples);

  // Position of the next batch.
  const Sampler::Cursor& cursor() const { return cursor_; }

  // Continues at `cursor` and drops all batches that were gathered ahead. Returns false, and changes nothing, if no run
  // with these options can reach `cursor`.
  bool Seek(const Sampler::Cursor& cursor);

 private:
  // A batch, or the description of a batch that is not gathered yet.
  struct Item {
    std::vector<int64_t> indices;
    Sampler::Cursor place;
    Sampler::Cursor next;
    Dataset::Samples samples;
    std::exception_ptr error;  // Set instead of `samples`.
  };

  // An order to one thread: to read and assemble the samples of some consecutive batches.
  struct Order {
    std::vector<Item> items;   // Used only by the gathering thread until is_gathered.
    bool is_gathered = false;  // Guarded by mutex_.
  };

  void Run();
  std::shared_ptr<Order> TakeOrder();
  std::shared_ptr<Order> TakeOwnOrder();
  std::shared_ptr<Order> NewOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GatherAll(Order& order);
  Dataset::Samples TakeSpare();
  std::vector<Item> AwaitItems();

  // The number of batches in an order. An eighth of the limit gives enough orders to occupy all threads, and spare ones
  // in case a thread does not run.
  size_t items_an_order() const { return std::max<size_t>(1, ahead_.batches / 8); }
  // The maximum number of orders in orders_. Then at most ahead_.batches batches are gathered ahead: those of this many
  // orders in orders_, and those of one more order in items_. The first batch in items_ does not count, because Next is
  // about to return it.
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
  std::vector<Item> items_;  // Gathered batches that Next has not returned yet, the next one last.

  absl::Mutex mutex_;
  std::optional<Sampler> sampler_ ABSL_GUARDED_BY(mutex_);             // Made with the first order, as it shuffles.
  std::optional<Sampler::Cursor> seek_ ABSL_GUARDED_BY(mutex_);        // Set until the sampler has performed the seek.
  std::deque<std::shared_ptr<Order>> orders_ ABSL_GUARDED_BY(mutex_);  // Follow the batches in items_; Seek drops them.
  std::vector<Dataset::Samples> spare_ ABSL_GUARDED_BY(mutex_);        // Memory for later batches.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;
};

}  // namespace ampd::data
