#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace ampd::server {

// An object that is called once a second.
class Ticking {
 public:
  virtual ~Ticking() = default;
  virtual void Tick(absl::Duration since_boot) = 0;
};

// Calls all registered objects once a second, on one thread. Hundreds of streams need this for heartbeats and
// deadlines. Thread-safe.
class Ticker {
 public:
  ~Ticker() { Stop(); }
  void Start();
  // Stops the thread. After Stop has returned, there are no more ticks.
  void Stop();
  // Calls the object's Tick once a second until the object is destroyed.
  void Add(std::weak_ptr<Ticking> ticking);
  size_t num_alive() const;

 private:
  void Run();

  std::thread thread_;
  mutable absl::Mutex mutex_;
  std::vector<std::weak_ptr<Ticking>> ticking_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
