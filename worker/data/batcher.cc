#include "worker/data/batcher.h"

#include <algorithm>
#include <utility>

namespace ampd::data {

Batcher::Batcher(const Sampler::Options& options, Gather gather, const Ahead& ahead)
    : options_(options), gather_(std::move(gather)), ahead_(ahead) {}

Batcher::~Batcher() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Batcher::Start() {
  for (size_t i = 0; i < ahead_.threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

Batcher::Batch Batcher::Next() {
  if (items_.empty()) {
    items_ = AwaitItems();
  }
  Item item = std::move(items_.back());
  items_.pop_back();
  if (item.error != nullptr) {
    std::rethrow_exception(item.error);
  }
  cursor_ = item.next;
  return {std::move(item.samples), item.place};
}

// Waits until the next group of batches is gathered, and returns them in reverse order, so that the caller can take
// them from the end.
std::vector<Batcher::Item> Batcher::AwaitItems() {
  while (const std::shared_ptr<Order> own = TakeOwnOrder()) {
    GatherAll(*own);
  }
  std::shared_ptr<Order> order;
  {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Batcher::IsReady));
    order = std::move(orders_.front());
    orders_.pop_front();
  }
  std::reverse(order->items.begin(), order->items.end());
  return std::move(order->items);
}

// Returns a new group of batches for the calling thread to gather. Returns null if the next batch is ready, or if no
// more batches may be gathered ahead.
std::shared_ptr<Batcher::Order> Batcher::TakeOwnOrder() {
  const absl::MutexLock lock(&mutex_);
  return !IsReady() && HasRoom() ? NewOrder() : nullptr;
}

void Batcher::Recycle(Dataset::Samples samples) {
  const absl::MutexLock lock(&mutex_);
  spare_.push_back(std::move(samples));
}

// Returns memory of an earlier batch; undefined tensors if there is none.
Dataset::Samples Batcher::TakeSpare() {
  const absl::MutexLock lock(&mutex_);
  if (spare_.empty()) {
    return {};
  }
  Dataset::Samples spare = std::move(spare_.back());
  spare_.pop_back();
  return spare;
}

bool Batcher::Seek(const Sampler::Cursor& cursor) {
  if (!Sampler::CanBeAt(options_, cursor)) {
    return false;
  }
  cursor_ = cursor;
  items_.clear();
  std::deque<std::shared_ptr<Order>> dropped;  // Its memory is freed after the lock is released.
  const absl::MutexLock lock(&mutex_);
  seek_ = cursor;
  dropped.swap(orders_);
  return true;
}

void Batcher::Run() {
  while (const std::shared_ptr<Order> order = TakeOrder()) {
    GatherAll(*order);
  }
}

// Returns a new group of batches for one of the batcher's threads to gather. Waits until it may be gathered ahead;
// returns null if the thread must stop.
std::shared_ptr<Batcher::Order> Batcher::TakeOrder() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Batcher::MayGather));
  return stopping_ ? nullptr : NewOrder();
}

std::shared_ptr<Batcher::Order> Batcher::NewOrder() {
  if (!sampler_.has_value()) {
    sampler_.emplace(options_);
  }
  if (seek_.has_value()) {
    sampler_->Seek(*std::exchange(seek_, std::nullopt));
  }
  auto order = std::make_shared<Order>();
  for (size_t i = 0; i < items_an_order(); ++i) {
    Item& item = order->items.emplace_back();
    item.place = sampler_->cursor();
    item.indices = sampler_->Next();
    item.next = sampler_->cursor();
  }
  orders_.push_back(order);
  return order;
}

void Batcher::GatherAll(Order& order) {
  for (Item& item : order.items) {
    try {
      item.samples = gather_(item.indices, item.next.epoch, TakeSpare());
    } catch (...) {
      item.error = std::current_exception();
    }
  }
  const absl::MutexLock lock(&mutex_);
  order.is_gathered = true;
}

}  // namespace ampd::data
