#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/api/job_watch.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/filter_words.h"
#include "client/commands/job/follow/detach.h"
#include "client/commands/job/follow/reconnect.h"
#include "client/commands/job/job.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct WaitOptions {
  std::vector<std::string> ids;
  absl::Duration timeout = absl::InfiniteDuration();
  std::optional<absl::Duration> retry_for;
  std::string state;  // wait until each job is in this state, "RUNNING" or "PAUSED"; empty: until each job has ended
};

std::vector<std::string> StatesToWaitFor() { return {"RUNNING", "PAUSED"}; }

// Accepts a state in upper or lower case. For a condition as kubectl has it, such as condition=running, returns an
// error that suggests the state.
std::string CheckState(const std::string& text) {
  const std::string word = absl::AsciiStrToUpper(text.substr(text.rfind('=') + 1));
  const Check is_state = OneOf(StatesToWaitFor());
  if (is_state(absl::AsciiStrToUpper(text)).empty()) {
    return "";
  }
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  // Other programs have several words for the end of a job.
  const std::string first = absl::AsciiStrToUpper(StatesNamed(word));
  if (v1::Job::State_Parse(first.substr(0, first.find(',')), &state) && IsTerminal(state)) {
    return absl::StrCat("'", text,
                        "' is an end, and --for takes RUNNING or PAUSED; to wait until the jobs have ended, "
                        "leave out --for; the exit code then says how they ended");
  }
  return is_state(word).empty() ? absl::StrCat("'", text, "' is no state; did you mean ", word, "?") : is_state(text);
}

// Returns the job's state after `message`. `before` is its state before the message.
v1::Job::State StateIn(const v1::WatchJobResponse& message, v1::Job::State before) {
  if (message.has_snapshot()) {
    return message.snapshot().state();
  }
  return message.event().kind() == v1::Event::STATE_CHANGED ? message.event().to_state() : before;
}

// Returns the error for a job that ended without reaching the state.
absl::Status NeverReached(const v1::Job& job, const std::string& state) {
  return Error(
      absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
      absl::StrCat("job ", job.id(), " ended as ", v1::Job::State_Name(job.state()), " before ampctl saw it ", state));
}

// Prints why a job failed, unless the output format prints the whole job.
void NoteFailure(const Session& session, const v1::Job& job) {
  if (job.state() == v1::Job::FAILED && !job.message().empty()) {
    session.Note(absl::StrCat(Printable(job.id()), ": ", Printable(job.message()), "  [",
                              v1::Reason::Code_Name(job.reason()), "]\n  more: ", session.Command("job show "),
                              Printable(job.id())));
  }
}

// Prints once why a queued job waits.
void NoteWaiting(const Session* session, JobClient* client, const v1::WatchJobResponse& message, bool* has_noted) {
  if (*has_noted || !message.has_snapshot() || message.snapshot().state() != v1::Job::QUEUED) {
    return;
  }
  const std::string& id = message.snapshot().id();
  if (const auto answer = client->ExplainJob(id); answer.ok() && answer->state() == v1::Job::QUEUED) {
    session->Note(absl::StrCat(Printable(id), " is QUEUED: ", Printable(answer->message())));
    *has_noted = true;
  }
}

// Returns the error for a job that did not end, or did not reach the wanted state, within the time limit. `state` is
// its present state.
absl::Status TimedOut(const Session& session, const std::string& id, const WaitOptions& options, v1::Job::State state) {
  const bool pauses = state == v1::Job::PAUSED || state == v1::Job::PAUSING;
  return Error(
      absl::StatusCode::kDeadlineExceeded, kWaitTimedOut,
      absl::StrCat(id, options.state.empty() ? " did not end" : absl::StrCat(" was not ", options.state), " within ",
                   options.timeout == absl::ZeroDuration() ? "0s" : absl::FormatDuration(options.timeout),
                   " (--timeout); the job ", pauses ? "is paused. To resume it: " : "continues. To see its progress: ",
                   session.Command(pauses ? "job resume " : "job show "), id));
}

// Asks for the job once more at the time limit, because with `--timeout 0s` no message has arrived by then. Returns the
// job if it has ended or reached the wanted state. Otherwise prints the error that the time is over, and returns the
// exit code. `state` is the last state that a message named.
OrExitCode<v1::Job> JobAtTimeout(Session* session, JobClient* client, const std::string& id, const WaitOptions& options,
                                 v1::Job::State state) {
  const auto job = client->GetJob(id);
  const bool is_there = job.ok() && (options.state.empty() ? IsTerminal(job->state())
                                                           : v1::Job::State_Name(job->state()) == options.state);
  return is_there ? OrExitCode<v1::Job>(*job)
                  : session->Fail(TimedOut(*session, id, options, job.ok() ? job->state() : state));
}

// Waits for one job until `deadline` (a time since boot). Returns the job when it has ended or, with --for, when it has
// reached the wanted state; otherwise the exit code.
OrExitCode<v1::Job> WaitForOne(Session* session, JobClient* client, const std::string& id, const WaitOptions& options,
                               const Patience& patience, absl::Duration deadline) {
  JobWatch watch(client, {.id = id, .patience = patience}, session->CancelledByInterrupt());
  v1::WatchJobResponse message;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  std::optional<v1::Job> ended;
  bool has_noted = false;
  JobWatch::Next next = JobWatch::Next::kMessage;
  while (next != JobWatch::Next::kEnded) {
    next = watch.Pull(deadline, &message);
    if (next == JobWatch::Next::kMessage && message.has_final()) {
      ended = message.final();
    } else if (next == JobWatch::Next::kMessage) {
      state = StateIn(message, state);
      NoteWaiting(session, client, message, &has_noted);
    } else if (next == JobWatch::Next::kCancelled) {
      return DetachAfterEcho(session, id, "wait");
    } else if (next == JobWatch::Next::kTimeout) {
      return JobAtTimeout(session, client, id, options, state);
    }
    if (v1::Job::State_Name(state) == options.state) {
      const auto job = client->GetJob(id);
      return job.ok() ? OrExitCode<v1::Job>(*job) : session->Fail(job.status());
    }
  }
  if (!watch.status().ok() || !ended.has_value()) {
    return session->Fail(watch.status());
  }
  return options.state.empty() ? OrExitCode<v1::Job>(*ended) : session->Fail(NeverReached(*ended, options.state));
}

int Wait(Session* session, const WaitOptions& options) {
  session->CancelledByInterrupt();  // From now on, Ctrl-C ends only the wait, not the program.
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const absl::Duration deadline = SystemClock().SinceBoot() + options.timeout;
  Patience patience = PatienceOf(options.retry_for);
  patience.before_first_answer = std::min(patience.before_first_answer, options.timeout);
  int exit_code = kExitOk;
  JobResults results(session, options.ids.size());
  std::vector<std::string> ids;
  for (const std::string& text : options.ids) {
    const auto id = FindJobIdPatiently(session, *client, text, patience);
    if (!id.ok()) {
      return session->Fail(id.status());
    }
    ids.push_back(*id);
  }
  for (const std::string& id : ids) {
    const OrExitCode<v1::Job> job = WaitForOne(session, *client, id, options, patience, deadline);
    if (const int* const failed = std::get_if<int>(&job); failed != nullptr) {
      return *failed;
    }
    const auto& now = std::get<v1::Job>(job);
    results.Add(now,
                session->options().output == OutputFormat::kWide ? RenderEnd(now) : v1::Job::State_Name(now.state()));
    NoteFailure(*session, now);
    exit_code = exit_code == kExitOk && IsTerminal(now.state()) ? ExitCodeOf(now.state()) : exit_code;
  }
  return exit_code;
}

}  // namespace

Command WaitForJobsCommand() {
  const auto options = std::make_shared<WaitOptions>();
  return {.name = "wait",
          .help =
              "Wait until all jobs ID... have ended or, with --for, have reached a state. Without --for, the exit code "
              "is 0 if all jobs succeeded. If not, the first job on the command line that did not succeed decides: the "
              "exit code is 1 if that job failed, 6 if it was cancelled",
          .examples =
              "  ampctl job wait ID1 ID2 --timeout 2h && ./deploy\n"
              "  ampctl job wait ID --for RUNNING",
          .formats = AllFormats(),
          .arguments = {JobIds(&options->ids),
                        {.name = "--for",
                         .value = &options->state,
                         .text = "STATE",
                         .help = "State to wait for: RUNNING or PAUSED (default: wait until the jobs have ended). If a "
                                 "job ends before it reaches this state, the wait ends with exit code 1",
                         .check = CheckState,
                         .suggest = [](const Typed&) { return StatesToWaitFor(); }},
                        {.name = "--timeout",
                         .value = &options->timeout,
                         .text = "DURATION",
                         .help = "Give up after this time, with exit code 7 (default: wait forever)",
                         .check = NotEndless("--timeout")},
                        ReconnectFor(&options->retry_for)},
          .run = [options](Session* session) {
            options->state = absl::AsciiStrToUpper(options->state);
            return Wait(session, *options);
          }};
}

}  // namespace ampd::client
