#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <thread>

namespace ampd {

// Receives signals on a thread of its own with sigwait, so that the callback may lock and allocate, unlike a signal
// handler. Construct it before any other thread exists: the signals are blocked in the constructing thread, and later
// threads inherit that. Thread-compatible.
class SignalThread {
 public:
  using Callback = std::function<void(int signal)>;

  SignalThread(std::initializer_list<int> signals);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // Calls `callback` on the signal thread for every signal. Signals that arrived before Start are delivered first.
  // REQUIRES: called at most once.
  void Start(Callback callback);

  // Ends the signal thread. When Stop returns, the callback is not running and will not be called again. Idempotent.
  void Stop();

 private:
  sigset_t signals_ = {};
  std::thread thread_;
};

}  // namespace ampd
