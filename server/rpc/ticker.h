#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace ampd::server {

// Something that wants to hear once a second that time passes.
class Ticking {
 public:
  virtual ~Ticking() = default;
  virtual void Tick(absl::Duration since_boot) = 0;
};

// One thread that ticks all that is alive: heartbeats and deadlines of streams, of which there may be hundreds.
// Thread-safe.
class Ticker {
 public:
  ~Ticker() { Stop(); }
  void Start();
  // No tick comes after it.
  void Stop();
  // Ticks until the object is gone.
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
