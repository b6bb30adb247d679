#include "server/rpc/calls/ticker.h"

#include <utility>

#include "base/clock.h"
#include "base/timed_wait.h"

namespace ampd::server {

void Ticker::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Ticker::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Ticker::Add(std::weak_ptr<Ticking> ticking) {
  absl::MutexLock lock(&mutex_);
  ticking_.push_back(std::move(ticking));
}

size_t Ticker::num_alive() const {
  absl::MutexLock lock(&mutex_);
  size_t num_alive = 0;
  for (const std::weak_ptr<Ticking>& one : ticking_) {
    num_alive += one.expired() ? 0 : 1;
  }
  return num_alive;
}

void Ticker::Run() {
  while (true) {
    std::vector<std::shared_ptr<Ticking>> alive;
    {
      absl::MutexLock lock(&mutex_);
      if (AwaitFor(mutex_, absl::Condition(&stopped_), absl::Seconds(1))) {
        return;
      }
      for (const std::weak_ptr<Ticking>& one : ticking_) {
        if (std::shared_ptr<Ticking> locked = one.lock()) {
          alive.push_back(std::move(locked));
        }
      }
      ticking_.assign(alive.begin(), alive.end());
    }
    for (const std::shared_ptr<Ticking>& one : alive) {
      one->Tick(SystemClock().SinceBoot());
    }
  }
}

}  // namespace ampd::server
