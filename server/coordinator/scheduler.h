#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "server/coordinator/state_listener.h"
#include "server/coordinator/worker_sessions.h"
#include "server/ledger/ledger.h"

namespace ampd::server {

// Places waiting jobs on free devices. Thread-safe.
class Scheduler {
 public:
  struct Options {
    Ledger* ledger = nullptr;
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;  // Thread-safe.
    const WorkerSessions* sessions = nullptr;
    StateListener* listener = nullptr;
  };
  explicit Scheduler(const Options& options) : options_(options) {}

  // Commits an assignment for each job that can begin now. An assignment that the state refuses, because something
  // changed meanwhile, is decided again by a later call.
  void PlaceWaiting();

 private:
  const Options options_;
};

}  // namespace ampd::server
