#include "client/commands/job/follow/watch_view.h"

#include "absl/strings/strip.h"
#include "base/clock.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr int kRowsAfter = 5;  // rows kept free below the last screen, for the result and the prompt
constexpr char kDetachHint[] = "Ctrl-C detaches; the job continues";
constexpr char kLostNotice[] = "connection lost; reconnecting";

}  // namespace

WatchView::WatchView(Session* session, absl::Duration interval)
    : session_(session),
      structured_(session->options().output != OutputFormat::kTable),
      animated_(session->animated() && !structured_),
      interval_(animated_ ? kRedrawInterval : interval) {
  session_->OnSuspend([this] { screen_.Suspend(); });
}

void WatchView::Add(const v1::WatchJobResponse& message) {
  watched_.Add(message);
  if (structured_ && !message.has_heartbeat()) {
    PrintMessage(message);
  } else if (!structured_ && !animated_ && message.has_event()) {
    Print(RenderEvent(message.event()));
  }
  lost_ = false;
  changed_ = true;
  ShowWhenDue();
}

void WatchView::AddWaiting(const std::string& why) {
  changed_ = changed_ || why != watched_.waiting();
  watched_.set_waiting(why);
}

void WatchView::AddLost() {
  if (!lost_ && !animated_) {
    session_->Note(kLostNotice);
  }
  changed_ = changed_ || !lost_;
  lost_ = true;
  ShowWhenDue();
}

void WatchView::ShowWhenDue() {
  if (SystemClock().SinceBoot() >= deadline()) {
    Show();
  }
}

void WatchView::End() {
  screen_.Leave();
  if (animated_ && watched_.job().state() != v1::Job::STATE_UNSPECIFIED) {
    ScreenOptions options = Options("");
    options.height -= kRowsAfter;
    Print(std::string(absl::StripSuffix(RenderWatchScreen(watched_, options), "\n")));
  } else if (!animated_ && !structured_ && changed_ && watched_.progress().step() > 0) {
    Print(RenderWatchLine(watched_, session_->Program()));
  }
}

void WatchView::Print(const std::string& line) {
  WriteColoured(line + "\n");
  FlushOutput();
}

void WatchView::PrintMessage(const v1::WatchJobResponse& message) {
  if (session_->options().output == OutputFormat::kYaml) {
    Print("---");
  }
  PrintStructured(*session_, message);
  FlushOutput();
}

ScreenOptions WatchView::Options(const std::string& notice) const {
  return {session_->width(), session_->height(), session_->ascii(), session_->palette(), notice};
}

void WatchView::Show() {
  last_shown_ = SystemClock().SinceBoot();
  const ScreenOptions options = Options(lost_ ? kLostNotice : kDetachHint);
  const bool resized = options.width != shown_width_ || options.height != shown_height_;
  // If stdout is not a terminal, lines for the final event and the result already show how the job ended.
  const bool is_shown_by_end = !animated_ && IsTerminal(watched_.job().state());
  if (structured_ || is_shown_by_end || (!changed_ && !(animated_ && resized))) {
    return;
  }
  changed_ = false;
  shown_width_ = options.width;
  shown_height_ = options.height;
  if (animated_) {
    screen_.Draw(RenderWatchScreen(watched_, options));
  } else {
    Print(RenderWatchLine(watched_, session_->Program()));
  }
}
}  // namespace ampd::client
