#pragma once

#include <string>

#include "absl/synchronization/mutex.h"

namespace ampd::client {

// A text on stdout that is redrawn in place. It uses the terminal's alternate screen, without cursor and line
// wrapping, so that neither resizing nor a long row leaves traces. The previous content of the terminal is restored
// when the object is destroyed, and while Ctrl-Z has stopped the process. Thread-safe.
class LiveScreen {
 public:
  LiveScreen() = default;
  ~LiveScreen() { Leave(); }
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // Replaces the text. The first call switches to the alternate screen.
  void Draw(const std::string& text);
  // Leaves the alternate screen and restores the terminal. Does nothing before the first Draw.
  void Leave();
  // Leaves the alternate screen, stops the process until SIGCONT, and switches back.
  void Suspend();

 private:
  void WriteAll(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  bool is_entered_ ABSL_GUARDED_BY(mutex_) = false;
  std::string shown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::client
