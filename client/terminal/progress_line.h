#pragma once

#include <chrono>

#include "client/terminal/session.h"

namespace ampd::client {

// A progress bar on stderr for commands that read or write large files. The bar is shown only on a terminal, and not
// with --quiet. The destructor removes the bar. Single-threaded.
class ProgressLine {
 public:
  explicit ProgressLine(const Session& session);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Draws the bar for `fraction`, in [0, 1]. Does nothing for the first 0.4 s, so that quick commands show no bar.
  // Redraws the bar at most ten times a second.
  void Show(double fraction);
  // Removes the bar, so that other output can follow.
  void Clear();

 private:
  const bool shown_;
  const bool ascii_;
  const int width_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point next_;  // the next time at which the bar may be drawn
};

}  // namespace ampd::client
