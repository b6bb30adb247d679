#include "base/ipc/signals.h"

#include <pthread.h>

namespace ampd {
namespace {

// The destructor sends this signal to end the signal thread. No other part of a process uses it.
constexpr int kWakeSignal = SIGURG;

}  // namespace

SignalThread::SignalThread(std::initializer_list<int> signals) {
  sigemptyset(&signals_);
  for (const int signal : signals) {
    sigaddset(&signals_, signal);
  }
  sigaddset(&signals_, kWakeSignal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

SignalThread::~SignalThread() { Stop(); }

void SignalThread::Stop() {
  if (thread_.joinable()) {
    pthread_kill(thread_.native_handle(), kWakeSignal);
    thread_.join();
  }
}

void SignalThread::Start(Callback callback) {
  thread_ = std::thread([this, callback = std::move(callback)] {
    int signal = 0;
    while (sigwait(&signals_, &signal) == 0 && signal != kWakeSignal) {
      callback(signal);
    }
  });
}

}  // namespace ampd
