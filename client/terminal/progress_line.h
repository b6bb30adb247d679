#pragma once

#include <chrono>

#include "client/terminal/session.h"

namespace ampd::client {

// A bar on stderr that tells how far a command on files of this machine has come. Shown on a terminal alone, and not to
// who asked for quiet; gone when it ends. Single-threaded.
class ProgressLine {
 public:
  explicit ProgressLine(const Session& session);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `fraction` in [0, 1]. Redrawn ten times a second at most.
  void Show(double fraction);
  // Takes the bar away, so that something else may be said.
  void Clear();

 private:
  const bool shown_;
  const bool ascii_;
  const int width_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace ampd::client
