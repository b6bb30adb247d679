#include "client/commands/compare/await_jobs.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/api/job_watch.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/render/watch_screen.h"
#include "client/terminal/progress_line.h"

namespace ampd::client {
namespace {

// Returns the command with which the user gets the verdict when the jobs have ended.
std::string LaterCommand(const Session& session, const ComparedJobs& compared) {
  std::string command = session.Command("compare");
  if (!compared.id.empty()) {
    return absl::StrCat(command, " --label ", compared.id);
  }
  for (const v1::Job& job : compared.jobs) {
    absl::StrAppend(&command, " ", job.id());
  }
  return command;
}

int Detach(Session* session, const ComparedJobs& compared, const std::string& options) {
  if (isatty(STDIN_FILENO) == 1) {
    session->Note("");  // The terminal has shown "^C" on the current line.
  }
  session->Note("detached; the jobs continue. To get the verdict when they have ended: " +
                LaterCommand(*session, compared) + options);
  return kExitInterrupted;
}

// Returns the share of the job's steps that are done.
double DoneShare(const WatchedJob& watched) {
  return watched.total_steps() > 0
             ? static_cast<double>(watched.progress().step()) / static_cast<double>(watched.total_steps())
             : 0;
}

// Follows a job until it has ended (kEnded) or the user presses Ctrl-C (kCancelled). `line` shows the progress over
// all `num_jobs` jobs of the comparison. `num_before` of them ended before this one was followed.
JobWatch::Next Follow(Session* session, JobWatch* watch, size_t num_before, size_t num_jobs, ProgressLine* line,
                      WatchedJob* watched) {
  bool was_paused = false;
  while (true) {
    v1::WatchJobResponse message;
    const JobWatch::Next next = watch->Pull(absl::InfiniteDuration(), &message);
    if (next == JobWatch::Next::kCancelled || next == JobWatch::Next::kEnded) {
      line->Clear();
      return next;
    }
    if (next == JobWatch::Next::kMessage) {
      watched->Add(message);
      line->Show((static_cast<double>(num_before) + DoneShare(*watched)) / static_cast<double>(num_jobs));
    }
    const bool is_paused = watched->job().state() == v1::Job::PAUSED;
    if (is_paused && !was_paused) {
      line->Clear();
      session->Note(absl::StrCat(watched->job().id(), " is paused; to resume it: ", session->Command("job resume "),
                                 watched->job().id()));
    }
    was_paused = is_paused;
  }
}

}  // namespace

std::optional<int> AwaitJobs(Session* session, ComparedJobs* compared, const std::string& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const size_t num_jobs = compared->jobs.size();
  ProgressLine line(*session);
  for (size_t i = 0; i < num_jobs; ++i) {
    v1::Job& job = compared->jobs[i];
    if (IsTerminal(job.state())) {
      continue;
    }
    JobWatch watch(*client, {job.id()}, interrupt);
    WatchedJob watched;
    if (Follow(session, &watch, i, num_jobs, &line, &watched) == JobWatch::Next::kCancelled) {
      return Detach(session, *compared, options);
    }
    if (!watch.status().ok()) {
      return session->Fail(watch.status());
    }
    job = watched.job();
    session->Note(absl::StrCat(i + 1, " of ", num_jobs, ": ", Printable(job.spec().name()), " ", RenderEnd(job)));
  }
  return std::nullopt;
}

}  // namespace ampd::client
