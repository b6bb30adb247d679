#include "worker/data/batcher.h"

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
  std::shared_ptr<Order> order;
  {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Batcher::IsReady));
    order = std::move(orders_.front());
    orders_.pop_front();
  }
  if (order->error != nullptr) {
    std::rethrow_exception(order->error);
  }
  cursor_ = order->next;
  return {std::move(order->samples), order->place};
}

bool Batcher::Seek(const Sampler::Cursor& cursor) {
  if (!Sampler::CanBeAt(options_, cursor)) {
    return false;
  }
  cursor_ = cursor;
  std::deque<std::shared_ptr<Order>> dropped;  // its memory is given back without the lock
  const absl::MutexLock lock(&mutex_);
  seek_ = cursor;
  dropped.swap(orders_);
  return true;
}

void Batcher::Run() {
  while (const std::shared_ptr<Order> order = TakeOrder()) {
    try {
      order->samples = gather_(order->indices, order->next.epoch);
    } catch (...) {
      order->error = std::current_exception();
    }
    const absl::MutexLock lock(&mutex_);
    order->is_gathered = true;
  }
}

// Null: the thread is to stop.
std::shared_ptr<Batcher::Order> Batcher::TakeOrder() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Batcher::MayGather));
  if (stopping_) {
    return nullptr;
  }
  if (!sampler_.has_value()) {
    sampler_.emplace(options_);
  }
  if (seek_.has_value()) {
    sampler_->Seek(*std::exchange(seek_, std::nullopt));
  }
  auto order = std::make_shared<Order>();
  order->place = sampler_->cursor();
  order->indices = sampler_->Next();
  order->next = sampler_->cursor();
  orders_.push_back(order);
  return order;
}

}  // namespace ampd::data
