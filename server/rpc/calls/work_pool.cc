#include "server/rpc/calls/work_pool.h"

#include <utility>

namespace ampd::server {

void WorkPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

void WorkPool::Start() {
  for (int i = 0; i < num_threads_; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

bool WorkPool::TryPost(std::function<void()> task, std::function<void()> then) {
  absl::MutexLock lock(&mutex_);
  if (closed_ || tasks_.size() >= capacity_) {
    return false;
  }
  tasks_.push_back({std::move(task), std::move(then)});
  return true;
}

bool WorkPool::TryPostIfIdle(std::function<void()> task, std::function<void()> then) {
  absl::MutexLock lock(&mutex_);
  if (closed_ || num_running_ + tasks_.size() >= static_cast<size_t>(num_threads_)) {
    return false;
  }
  tasks_.push_back({std::move(task), std::move(then)});
  return true;
}

void WorkPool::Work() {
  while (true) {
    Posted next;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &WorkPool::HasTaskOrClosed));
      if (tasks_.empty()) {
        return;
      }
      next = std::move(tasks_.front());
      tasks_.pop_front();
      ++num_running_;
    }
    next.task();
    next.task = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      --num_running_;
    }
    if (next.then != nullptr) {
      next.then();
    }
  }
}

}  // namespace ampd::server
