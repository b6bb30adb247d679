#pragma once

#include <string>

#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "client/render/watch_screen.h"
#include "client/terminal/live_screen.h"
#include "client/terminal/session.h"

namespace ampd::client {

// The least time between two drawings of the screen on a terminal.
inline constexpr absl::Duration kRedrawInterval = absl::Milliseconds(200);

// Shows the messages of a watched job: on a terminal as a screen that is redrawn in place, otherwise as lines, or
// message by message in the format of -o. While this object exists, Ctrl-Z restores the terminal before it stops the
// process. Single-threaded, except for Ctrl-Z.
class WatchView {
 public:
  // `interval`: time between lines if stdout is not a terminal.
  WatchView(Session* session, absl::Duration interval);
  ~WatchView() { session_->OnSuspend(nullptr); }
  WatchView(const WatchView&) = delete;
  WatchView& operator=(const WatchView&) = delete;

  // Returns the time (since boot) of the next call of ShowWhenDue() that may show something.
  absl::Duration deadline() const { return last_shown_ + interval_; }

  void Add(const v1::WatchJobResponse& message);
  // Sets the text that says why the job waits. The next drawing shows it.
  void AddWaiting(const std::string& why);
  // Shows that the connection is lost, until the next message arrives.
  void AddLost();
  void ShowWhenDue();

  // Ends the live screen and prints the job's last state.
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
