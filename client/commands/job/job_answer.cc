#include "client/commands/job/job_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/api/job_watch.h"
#include "client/terminal/session.h"

namespace ampd::client {

namespace {

absl::Status CheckIsRunning(const v1::Job& job, const JobRequest& request) {
  return job.state() == v1::Job::STARTING || job.state() == v1::Job::RUNNING
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat("only a running job can ", request.asked, "; job ", job.id(),
                                                          " is ", v1::Job::State_Name(job.state())));
}

}  // namespace

absl::StatusOr<v1::Event> AwaitAnswer(JobClient* client, const JobRequest& request, absl::Duration deadline,
                                      Cancellation* interrupt) {
  const std::string& id = request.request.id();
  AMPD_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(id));
  AMPD_RETURN_IF_ERROR(CheckIsRunning(job, request));
  JobWatch watch(client, {.id = id}, interrupt);
  bool requested = false;
  while (true) {
    v1::WatchJobResponse message;
    switch (watch.Pull(deadline, &message)) {
      case JobWatch::Next::kReconnecting:
        break;
      case JobWatch::Next::kCancelled:
        return absl::CancelledError(absl::StrCat("interrupted before job ", id, " reported ", request.thing,
                                                 "; to check later: ", request.program, " job events ", id));
      case JobWatch::Next::kTimeout:
        return Error(absl::StatusCode::kDeadlineExceeded, kWaitTimedOut,
                     absl::StrCat("job ", id, " has not reported ", request.thing,
                                  " yet; to check later: ", request.program, " job events ", id));
      case JobWatch::Next::kEnded:
        return watch.status().ok() ? absl::FailedPreconditionError(
                                         absl::StrCat("job ", id, " ended before it reported ", request.thing))
                                   : watch.status();
      case JobWatch::Next::kMessage:
        if (!std::exchange(requested, true)) {
          if (const auto updated = client->UpdateJob(request.request); !updated.ok()) {
            return updated.status();
          }
        }
        if (message.event().kind() == request.answer) {
          return message.event();
        }
    }
  }
}

}  // namespace ampd::client
