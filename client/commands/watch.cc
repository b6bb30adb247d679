#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/api/cancellation.h"
#include "client/api/job_watch.h"
#include "client/commands/commands.h"
#include "client/render/job_text.h"
#include "client/render/watch_screen.h"
#include "client/terminal/live_screen.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

constexpr absl::Duration kRedrawInterval = absl::Milliseconds(200);

constexpr int kRowsBehind = 5;  // rows for the result and the prompt
constexpr char kDetachHint[] = "Ctrl-C detaches; the job goes on";
constexpr char kLostNotice[] = "connection lost; trying again";

// Shows the messages: as a screen redrawn in place, as lines, or each of them by -o.
class WatchView {
 public:
  WatchView(Session* session, absl::Duration interval)
      : session_(session),
        structured_(session->options().output != OutputFormat::kTable),
        animated_(session->animated() && !structured_),
        interval_(animated_ ? kRedrawInterval : interval) {
    session_->OnSuspend([this] { screen_.Suspend(); });
  }
  ~WatchView() { session_->OnSuspend(nullptr); }

  absl::Duration deadline() const { return last_shown_ + interval_; }

  void Add(const v1::WatchJobResponse& message) {
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

  void AddWaiting(const std::string& why) {
    changed_ = changed_ || why != watched_.waiting();
    watched_.set_waiting(why);
  }

  void AddLost() {
    if (!lost_ && !animated_) {
      session_->Note(kLostNotice);
    }
    changed_ = changed_ || !lost_;
    lost_ = true;
    ShowWhenDue();
  }

  void ShowWhenDue() {
    if (SystemClock().SinceBoot() >= deadline()) {
      Show();
    }
  }

  // Leaves the screen and prints the last state.
  void End() {
    screen_.Leave();
    if (animated_ && watched_.job().state() != v1::Job::STATE_UNSPECIFIED) {
      ScreenOptions options = Options("");
      options.height -= kRowsBehind;
      Print(std::string(absl::StripSuffix(RenderWatchScreen(watched_, options), "\n")));
    } else if (!animated_ && !structured_ && changed_ && watched_.progress().step() > 0) {
      Print(RenderWatchLine(watched_));
    }
  }

  const WatchedJob& watched() const { return watched_; }

 private:
  void Print(const std::string& line) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

  void PrintMessage(const v1::WatchJobResponse& message) {
    if (session_->options().output == OutputFormat::kYaml) {
      Print("---");
    }
    PrintStructured(*session_, message);
    std::fflush(stdout);
  }

  ScreenOptions Options(const std::string& notice) const {
    return {session_->width(), session_->height(), session_->ascii(), session_->palette(), notice};
  }

  void Show() {
    last_shown_ = SystemClock().SinceBoot();
    const ScreenOptions options = Options(lost_ ? kLostNotice : kDetachHint);
    const bool resized = options.width != shown_width_ || options.height != shown_height_;
    // Without a terminal, the events and the result already show how a job ended.
    const bool said_by_end = !animated_ && IsTerminal(watched_.job().state());
    if (structured_ || said_by_end || (!changed_ && !(animated_ && resized))) {
      return;
    }
    changed_ = false;
    shown_width_ = options.width;
    shown_height_ = options.height;
    if (animated_) {
      screen_.Draw(RenderWatchScreen(watched_, options));
    } else {
      Print(RenderWatchLine(watched_));
    }
  }

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

int Detach(Session* session, const std::string& id, const char* verb) {
  session->Note(absl::StrCat("detached; the job goes on. Come back with: ampctl job ", verb, " ", id));
  return kExitInterrupted;
}

// Prints the same on a line after the "^C" that a terminal shows.
int DetachBehindEcho(Session* session, const std::string& id, const char* verb) {
  if (isatty(STDIN_FILENO) == 1) {
    session->Note("");
  }
  return Detach(session, id, verb);
}

void ReportEnd(Session* session, const v1::Job& job) {
  const std::string next = NextCommands(job);
  session->Note(
      absl::StrCat(RenderEnd(job), "\n  details: ampctl job show ", job.id(), next.empty() ? "" : "\n", next));
}

// Asks why a queued job waits, after each snapshot and heartbeat.
void AskWhyItWaits(JobClient* client, const std::string& id, const v1::WatchJobResponse& message, WatchView* view) {
  const bool may_have_changed = message.has_snapshot() || message.has_heartbeat();
  if (!may_have_changed || view->watched().job().state() != v1::Job::QUEUED) {
    return;
  }
  if (const auto answer = client->ExplainJob(id); answer.ok()) {
    view->AddWaiting(std::string(absl::StripPrefix(answer->message(), absl::StrCat("job ", id, ": "))));
  }
}

}  // namespace

int Watch(Session* session, const WatchOptions& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  JobWatch watch(*client, {options.id, options.from_start}, interrupt);
  WatchView view(session, options.interval);
  while (true) {
    v1::WatchJobResponse message;
    switch (watch.Pull(std::max(view.deadline(), SystemClock().SinceBoot() + kRedrawInterval), &message)) {
      case JobWatch::Next::kMessage:
        view.Add(message);
        AskWhyItWaits(*client, options.id, message, &view);
        break;
      case JobWatch::Next::kTimeout:
        view.ShowWhenDue();
        break;
      case JobWatch::Next::kReconnecting:
        view.AddLost();
        break;
      case JobWatch::Next::kCancelled:
        view.End();
        return Detach(session, options.id, "watch");
      case JobWatch::Next::kEnded:
        view.End();
        if (!watch.status().ok()) {
          return session->Fail(watch.status());
        }
        ReportEnd(session, view.watched().job());
        return ExitCodeOf(view.watched().job().state());
    }
  }
}

namespace {

// The job's state after the message.
v1::Job::State StateIn(const v1::WatchJobResponse& message, v1::Job::State before) {
  if (message.has_snapshot()) {
    return message.snapshot().state();
  }
  return message.event().kind() == v1::Event::STATE_CHANGED ? message.event().to_state() : before;
}

}  // namespace

int Wait(Session* session, const std::vector<std::string>& ids, absl::Duration timeout) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const absl::Duration deadline = SystemClock().SinceBoot() + timeout;
  int exit_code = kExitOk;
  JobResults results(session, ids.size());
  for (const std::string& id : ids) {
    JobWatch watch(*client, {id}, interrupt);
    v1::Job job;
    job.set_id(id);
    v1::WatchJobResponse message;
    v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
    JobWatch::Next next = JobWatch::Next::kMessage;
    while (next != JobWatch::Next::kEnded) {
      next = watch.Pull(deadline, &message);
      if (next == JobWatch::Next::kMessage && message.has_final()) {
        job = message.final();
      } else if (next == JobWatch::Next::kMessage) {
        state = StateIn(message, state);
      } else if (next == JobWatch::Next::kCancelled) {
        return DetachBehindEcho(session, id, "wait");
      } else if (next == JobWatch::Next::kTimeout) {
        const bool pauses = state == v1::Job::PAUSED || state == v1::Job::PAUSING;
        return session->Fail(Error(absl::StatusCode::kDeadlineExceeded, kWaitTimedOut,
                                   absl::StrCat(id, " did not end within ", absl::FormatDuration(timeout), "; it ",
                                                pauses ? "is paused. To go on: ampctl job resume "
                                                       : "goes on. See how far it is: ampctl job show ",
                                                id)));
      }
    }
    if (!watch.status().ok()) {
      return session->Fail(watch.status());
    }
    results.Add(job,
                session->options().output == OutputFormat::kWide ? RenderEnd(job) : v1::Job::State_Name(job.state()));
    exit_code = exit_code == kExitOk && IsTerminal(job.state()) ? ExitCodeOf(job.state()) : exit_code;
  }
  return exit_code;
}

int Logs(Session* session, const LogsOptions& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  LogTail::Options tail;
  tail.request.set_id(options.id);
  tail.request.set_attempt(options.attempt);
  tail.request.set_offset_bytes(-options.tail_bytes);
  tail.request.set_follow(options.follow);
  LogTail log(*client, tail, interrupt);
  bool empty = true;
  const absl::Status ended = log.Run([session, &empty](const v1::TailLogsResponse& piece) {
    empty = empty && piece.content().empty() && piece.dropped_bytes() == 0;
    if (piece.dropped_bytes() > 0) {
      session->Note(absl::StrCat("(", piece.dropped_bytes(), " bytes left out here: the log is bounded)"));
    }
    std::fwrite(piece.content().data(), 1, piece.content().size(), stdout);
    std::fflush(stdout);
  });
  if (interrupt->cancelled()) {
    return DetachBehindEcho(session, options.id, options.follow ? "logs -f" : "logs");
  }
  if (ended.ok() && empty) {
    session->Note("the trainer wrote nothing; what happened to the job: ampctl job events " + options.id);
  }
  return ended.ok() ? kExitOk : session->Fail(ended);
}

}  // namespace ampd::client
