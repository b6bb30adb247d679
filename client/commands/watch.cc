#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/cancellation.h"
#include "client/commands/commands.h"
#include "client/commands/output.h"
#include "client/job_watch.h"
#include "client/render/watch_screen.h"

namespace ampd::client {
namespace {

constexpr absl::Duration kRedrawInterval = absl::Milliseconds(200);

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

// Shows what comes: a screen redrawn in place, lines, or JSON lines.
class WatchView {
 public:
  WatchView(Session* session, absl::Duration interval)
      : session_(session),
        json_lines_(session->options().output == OutputFormat::kJsonLines ||
                    session->options().output == OutputFormat::kJson),
        interval_(session->animated() ? kRedrawInterval : interval) {}

  absl::Time deadline() const { return last_shown_ + interval_; }

  void Add(const v1::WatchJobResponse& message) {
    if (json_lines_) {
      if (!message.has_heartbeat()) {
        std::printf("%s\n", ToJson(message, false).c_str());
        std::fflush(stdout);
      }
      watched_.Add(message);
      return;
    }
    watched_.Add(message);
    if (!session_->animated() && message.has_event()) {
      std::printf("%s\n", RenderEvent(message.event()).c_str());
      std::fflush(stdout);
    }
    changed_ = true;
    ShowWhenDue();
  }

  void ShowWhenDue() {
    if (absl::Now() >= deadline()) {
      Show();
    }
  }

  void Show() {
    last_shown_ = absl::Now();
    if (json_lines_ || !changed_) {
      return;
    }
    changed_ = false;
    if (!session_->animated()) {
      std::printf("%s\n", RenderWatchLine(watched_).c_str());
      std::fflush(stdout);
      return;
    }
    const std::string screen =
        RenderWatchScreen(watched_, {session_->width(), session_->height(), session_->ascii(), session_->palette()});
    // Up to the first row of the last screen, then over it; what is left below is cleared.
    std::string output = rows_ > 0 ? absl::StrCat("\x1b[", rows_, "A") : "";
    output += "\r";
    for (const char c : screen) {
      output += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    }
    output += "\x1b[J";
    std::fwrite(output.data(), 1, output.size(), stdout);
    std::fflush(stdout);
    rows_ = static_cast<int>(std::count(screen.begin(), screen.end(), '\n'));
  }

  const WatchedJob& watched() const { return watched_; }

 private:
  Session* const session_;
  const bool json_lines_;
  const absl::Duration interval_;
  WatchedJob watched_;
  absl::Time last_shown_ = absl::InfinitePast();
  bool changed_ = false;
  int rows_ = 0;
};

int Detach(Session* session, const std::string& id, const char* verb) {
  session->Note(absl::StrCat("\ndetached; the job goes on. Come back with: ampctl job ", verb, " ", id));
  return kExitInterrupted;
}

void ReportEnd(Session* session, const v1::Job& job) {
  session->Note(absl::StrCat(v1::Job::State_Name(job.state()), " ", v1::Reason_Name(job.reason()),
                             job.message().empty() ? "" : absl::StrCat(": ", Printable(job.message())),
                             "\n  details: ampctl job show ", job.id(),
                             job.state() == v1::Job::FAILED ? absl::StrCat("\n  logs:    ampctl job logs ", job.id(),
                                                                           "\n  retry:   ampctl job retry ", job.id())
                                                            : ""));
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
  bool reconnecting = false;
  while (true) {
    v1::WatchJobResponse message;
    switch (watch.Pull(std::max(view.deadline(), absl::Now() + kRedrawInterval), &message)) {
      case JobWatch::Next::kMessage:
        reconnecting = false;
        view.Add(message);
        break;
      case JobWatch::Next::kTimeout:
        view.ShowWhenDue();
        break;
      case JobWatch::Next::kReconnecting:
        if (!reconnecting && !session->animated()) {
          session->Note("connection lost; trying again");
        }
        reconnecting = true;
        break;
      case JobWatch::Next::kCancelled:
        return Detach(session, options.id, "watch");
      case JobWatch::Next::kEnded:
        view.Show();
        if (!watch.status().ok()) {
          return session->Fail(watch.status());
        }
        ReportEnd(session, view.watched().job());
        return ExitCodeOf(view.watched().job().state());
    }
  }
}

int Wait(Session* session, const std::vector<std::string>& ids, absl::Duration timeout) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const absl::Time deadline = absl::Now() + timeout;
  int exit_code = kExitOk;
  for (const std::string& id : ids) {
    JobWatch watch(*client, {id}, interrupt);
    v1::Job job;
    v1::WatchJobResponse message;
    JobWatch::Next next = JobWatch::Next::kMessage;
    while (next != JobWatch::Next::kEnded) {
      next = watch.Pull(deadline, &message);
      if (next == JobWatch::Next::kMessage && message.has_final()) {
        job = message.final();
      } else if (next == JobWatch::Next::kCancelled) {
        return Detach(session, id, "wait");
      } else if (next == JobWatch::Next::kTimeout) {
        return session->Fail(absl::DeadlineExceededError(
            absl::StrCat(id, " did not end within ", absl::FormatDuration(timeout), "; it goes on")));
      }
    }
    if (!watch.status().ok()) {
      return session->Fail(watch.status());
    }
    if (!PrintStructured(*session, job)) {
      std::printf("%s%s\n", id.c_str(),
                  session->options().quiet ? "" : ("  " + v1::Job::State_Name(job.state())).c_str());
    }
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
  const absl::Status ended = log.Run([session](const v1::TailLogsResponse& piece) {
    if (piece.dropped_bytes() > 0) {
      session->Note(absl::StrCat("(", piece.dropped_bytes(), " bytes left out here: the log is bounded)"));
    }
    std::fwrite(piece.content().data(), 1, piece.content().size(), stdout);
    std::fflush(stdout);
  });
  if (interrupt->cancelled()) {
    return Detach(session, options.id, "logs -f");
  }
  return ended.ok() ? kExitOk : session->Fail(ended);
}

}  // namespace ampd::client
