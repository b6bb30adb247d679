#pragma once

#include <string>

#include "absl/synchronization/mutex.h"

namespace ampd::client {

// A text that is redrawn in place on stdout: the terminal's second screen, without cursor and without wrapping, so that
// neither resizing nor a long row can leave a trace. What was on the terminal comes back when it ends, and while the
// process is stopped by Ctrl-Z. Thread-safe.
class LiveScreen {
 public:
  LiveScreen() = default;
  ~LiveScreen() { Leave(); }
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // Replaces what is shown. The first call takes the screen.
  void Draw(const std::string& text);
  // Gives the terminal back as it was; does nothing when the screen was not taken.
  void Leave();
  // Leaves, stops the process until SIGCONT, and takes the screen again.
  void Suspend();

 private:
  void WriteAll(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  std::string shown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::client
