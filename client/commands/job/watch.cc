#include "client/commands/job/watch.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "client/api/cancellation.h"
#include "client/api/job_watch.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/job/follow/detach.h"
#include "client/commands/job/follow/reconnect.h"
#include "client/commands/job/follow/watch_view.h"
#include "client/commands/job/job.h"
#include "client/render/job_text.h"

namespace ampd::client {
namespace {

void ReportEnd(Session* session, const v1::Job& job) {
  const std::string next = NextCommands(job, session->Program());
  session->Note(absl::StrCat(RenderEnd(job), "\n  details: ", session->Command("job show "), Printable(job.id()),
                             next.empty() ? "" : "\n", next));
}

// If the job is queued, asks the server why it waits, and passes the answer to the view. Asks after a snapshot or a
// heartbeat, not after every message.
void FetchWaitingReason(JobClient* client, const std::string& id, const v1::WatchJobResponse& message,
                        WatchView* view) {
  const bool may_have_changed = message.has_snapshot() || message.has_heartbeat();
  const v1::Job& job = message.has_snapshot() ? message.snapshot() : view->watched().job();
  if (!may_have_changed || job.state() != v1::Job::QUEUED) {
    return;
  }
  if (const auto answer = client->ExplainJob(id); answer.ok()) {
    view->AddWaiting(answer->message());
  }
}

}  // namespace

int Watch(Session* session, const WatchOptions& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const Patience patience = PatienceOf(options.retry_for);
  const auto id = FindJobIdPatiently(session, *client, options.id, patience);
  if (!id.ok()) {
    return session->Fail(id.status());
  }
  JobWatch watch(*client, {.id = *id, .from_start = !options.live_only, .patience = patience}, interrupt);
  WatchView view(session, options.interval);
  while (true) {
    v1::WatchJobResponse message;
    switch (watch.Pull(std::max(view.deadline(), SystemClock().SinceBoot() + kRedrawInterval), &message)) {
      case JobWatch::Next::kMessage:
        FetchWaitingReason(*client, *id, message, &view);  // Ask before the view prints the state.
        view.Add(message);
        break;
      case JobWatch::Next::kTimeout:
        view.ShowWhenDue();
        break;
      case JobWatch::Next::kReconnecting:
        view.AddLost();
        break;
      case JobWatch::Next::kCancelled:
        view.End();
        return Detach(session, *id, "watch");
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

Command WatchJobCommand() {
  const auto options = std::make_shared<WatchOptions>();
  return {.name = "watch",
          .help =
              "Watch the state, steps, loss and events of a job until it ends; Ctrl-C ends the watching and not the "
              "job. The exit code is 0 if the job succeeded, 1 if it failed, and 6 if it was cancelled. For its log: "
              "ampctl job logs -f",
          .examples =
              "  ampctl job watch ID\n"
              "  ampctl job watch ID -o jsonl | jq -c '.steps.loss[]?'     the loss of every step\n"
              "  ampctl job watch ID --interval 1m >> train.log",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {JobId(&options->id),
                        {.name = "--live-only",
                         .value = &options->live_only,
                         .help = "Show only steps from now on (default: first show all steps so far)"},
                        {.name = "--interval",
                         .value = &options->interval,
                         .text = "DURATION",
                         .help = "Time between two lines when the output goes to a file or pipe (default 5s)",
                         .check = CheckInterval},
                        ReconnectFor(&options->retry_for)},
          .run = [options](Session* session) { return Watch(session, *options); }};
}

}  // namespace ampd::client
