#pragma once

#include <chrono>

#include "client/terminal/session.h"

namespace ampd::client {

// A progress bar on stderr for commands that read or write large files. It is shown only on a terminal and without
// --quiet, and removed when this object is destroyed. Single-threaded.
class ProgressLine {
 public:
  explicit ProgressLine(const Session& session);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Draws the bar for `fraction`, in [0, 1]. Does nothing for the first 0.4 s, so that quick commands show no bar, and
  // redraws it at most ten times a second.
  void Show(double fraction);
  // Removes the bar, so that other output can follow.
  void Clear();

 private:
  const bool shown_;
  const bool ascii_;
  const int width_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point next_;  // When the bar may be drawn again.
};

}  // namespace ampd::client
