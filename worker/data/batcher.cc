#include "worker/data/batcher.h"

#include <utility>

namespace ampd::data {

Batcher::Batcher(const Sampler::Options& options, Gather gather, size_t max_ahead)
    : options_(options), gather_(std::move(gather)), max_ahead_(max_ahead) {}

Batcher::~Batcher() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Batcher::Start() {
  thread_ = std::thread([this] { Run(); });
}

Batcher::Batch Batcher::Next() {
  Gathered gathered;
  {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Batcher::IsReady));
    gathered = std::move(ready_.front());
    ready_.pop_front();
  }
  if (gathered.error != nullptr) {
    std::rethrow_exception(gathered.error);
  }
  cursor_ = gathered.next;
  return {std::move(gathered.samples), gathered.place};
}

bool Batcher::Seek(const Sampler::Cursor& cursor) {
  if (!Sampler::CanBeAt(options_, cursor)) {
    return false;
  }
  cursor_ = cursor;
  std::deque<Gathered> forgotten;  // its memory is given back without the lock
  const absl::MutexLock lock(&mutex_);
  seek_ = cursor;
  ++generation_;
  forgotten.swap(ready_);
  return true;
}

void Batcher::Run() {
  Sampler sampler(options_);
  while (const std::optional<Order> order = AwaitOrder()) {
    if (order->seek.has_value()) {
      sampler.Seek(*order->seek);
    }
    Gathered gathered;
    gathered.place = sampler.cursor();
    const std::vector<int64_t> indices = sampler.Next();
    gathered.next = sampler.cursor();
    try {
      gathered.samples = gather_(indices, gathered.next.epoch);
    } catch (...) {
      gathered.error = std::current_exception();
    }
    Deliver(std::move(gathered), order->generation);
  }
}

// None: it is to stop.
std::optional<Batcher::Order> Batcher::AwaitOrder() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Batcher::MayGather));
  return stopping_ ? std::nullopt : std::optional(Order{std::exchange(seek_, std::nullopt), generation_});
}

void Batcher::Deliver(Gathered gathered, uint64_t generation) {
  const absl::MutexLock lock(&mutex_);
  if (generation == generation_) {
    ready_.push_back(std::move(gathered));
  }
}

}  // namespace ampd::data
