#pragma once

#include <string>

#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "client/render/watch_screen.h"
#include "client/terminal/live_screen.h"
#include "client/terminal/session.h"

namespace ampd::client {

// How often a screen on a terminal is redrawn at most.
inline constexpr absl::Duration kRedrawInterval = absl::Milliseconds(200);

// Shows the messages of a watched job: as a screen redrawn in place, as lines, or each of them by -o. While it lives,
// Ctrl-Z stops the process with the terminal restored. Single-threaded, except for Ctrl-Z.
class WatchView {
 public:
  // `interval`: time between lines if stdout is not a terminal.
  WatchView(Session* session, absl::Duration interval);
  ~WatchView() { session_->OnSuspend(nullptr); }
  WatchView(const WatchView&) = delete;
  WatchView& operator=(const WatchView&) = delete;

  // When ShowWhenDue() next has something to do, since boot.
  absl::Duration deadline() const { return last_shown_ + interval_; }

  void Add(const v1::WatchJobResponse& message);
  // Why the job waits, for the next time that it is shown.
  void AddWaiting(const std::string& why);
  // The connection is lost; the next message ends that.
  void AddLost();
  void ShowWhenDue();

  // Leaves the screen and prints the last state.
  void End();

  const WatchedJob& watched() const { return watched_; }

 private:
  void Print(const std::string& line);
  void PrintMessage(const v1::WatchJobResponse& message);
  ScreenOptions Options(const std::string& notice) const;
  void Show();

  Session* const session_;
  const bool structured_;
  const bool animated_;
  const absl::Duration interval_;
  LiveScreen screen_;
  WatchedJob watched_;
  absl::Duration last_shown_ = -absl::InfiniteDuration();  // since boot
  bool changed_ = false;
  bool lost_ = false;
  int shown_width_ = 0;
  int shown_height_ = 0;
};

}  // namespace ampd::client
