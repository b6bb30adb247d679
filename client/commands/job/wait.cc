#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/api/job_watch.h"
#include "client/commands/arguments.h"
#include "client/commands/job/detach.h"
#include "client/commands/job/job.h"
#include "client/commands/job/reconnect.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct WaitOptions {
  std::vector<std::string> ids;
  absl::Duration timeout = absl::InfiniteDuration();
  std::optional<absl::Duration> retry_for;
};

// Returns the job's state after `message`. `before` is its state before the message.
v1::Job::State StateIn(const v1::WatchJobResponse& message, v1::Job::State before) {
  if (message.has_snapshot()) {
    return message.snapshot().state();
  }
  return message.event().kind() == v1::Event::STATE_CHANGED ? message.event().to_state() : before;
}

int Wait(Session* session, const WaitOptions& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const absl::Duration deadline = SystemClock().SinceBoot() + options.timeout;
  Patience patience = PatienceOf(options.retry_for);
  patience.before_first_answer = std::min(patience.before_first_answer, options.timeout);
  int exit_code = kExitOk;
  JobResults results(session, options.ids.size());
  for (const std::string& text : options.ids) {
    const auto found = FindJobIdPatiently(session, *client, text, patience);
    if (!found.ok()) {
      return session->Fail(found.status());
    }
    const std::string& id = *found;
    JobWatch watch(*client, {.id = id, .patience = patience}, interrupt);
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
        return DetachAfterEcho(session, id, "wait");
      } else if (next == JobWatch::Next::kTimeout) {
        const bool pauses = state == v1::Job::PAUSED || state == v1::Job::PAUSING;
        return session->Fail(
            Error(absl::StatusCode::kDeadlineExceeded, kWaitTimedOut,
                  absl::StrCat(id, " did not end within ", absl::FormatDuration(options.timeout), "; it ",
                               pauses ? "is paused. To resume it: ampctl job resume "
                                      : "continues. To see its progress: ampctl job show ",
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

}  // namespace

Command WaitForJobsCommand() {
  const auto options = std::make_shared<WaitOptions>();
  return {.name = "wait",
          .help = "Wait until jobs have ended",
          .examples = "  ampctl job wait ID1 ID2 --timeout 2h && ./deploy",
          .formats = AllFormats(),
          .arguments = {JobIds(&options->ids),
                        {.name = "--timeout",
                         .value = &options->timeout,
                         .text = "DURATION",
                         .help = "Give up after this time, with exit code 7 (default: wait forever)"},
                        ReconnectFor(&options->retry_for)},
          .run = [options](Session* session) { return Wait(session, *options); }};
}

}  // namespace ampd::client
