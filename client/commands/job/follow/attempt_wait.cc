#include "client/commands/job/follow/attempt_wait.h"

#include "absl/strings/str_cat.h"
#include "client/render/job_text.h"

namespace ampd::client {
namespace {

// For a job that has no running attempt, returns what happens next, and the command that helps.
std::string WaitText(const Session& session, const v1::Job& job) {
  const std::string id = Printable(job.id());
  const std::string now = job.num_attempts() == 0 ? absl::StrCat(id, " has not started")
                                                  : absl::StrCat("attempt ", job.num_attempts(), " has ended");
  return job.state() == v1::Job::PAUSED || job.state() == v1::Job::PAUSING
             ? absl::StrCat(now, " and the job is paused; waiting until it is resumed. To resume it: ",
                            session.Command("job resume "), id)
             : absl::StrCat(now, "; waiting for attempt ", job.num_attempts() + 1,
                            ". To see why the job waits: ", session.Command("job explain "), id);
}

}  // namespace

void AttemptWait::Note(const v1::Job& job) {
  if (std::string text = WaitText(*session_, job); text != last_note_) {
    session_->Note(text);
    last_note_ = std::move(text);
  }
}

absl::StatusOr<int> AttemptWait::Await(int number) {
  JobWatch watch(client_, {.id = id_, .patience = patience_}, session_->CancelledByInterrupt());
  int num_attempts = 0;
  while (true) {
    v1::WatchJobResponse message;
    switch (watch.Pull(absl::InfiniteDuration(), &message)) {
      case JobWatch::Next::kMessage:
        patience_.before_first_answer = patience_.after_loss;
        if (message.has_final()) {
          return message.final().num_attempts();
        }
        if (message.has_snapshot()) {
          num_attempts = message.snapshot().num_attempts();
          if (num_attempts >= number || IsTerminal(message.snapshot().state())) {
            return num_attempts;
          }
          Note(message.snapshot());
        }
        break;
      case JobWatch::Next::kEnded:
        return watch.status().ok() ? absl::StatusOr<int>(num_attempts) : watch.status();
      case JobWatch::Next::kCancelled:
        return absl::CancelledError("interrupted");
      case JobWatch::Next::kTimeout:
      case JobWatch::Next::kReconnecting:
        break;
    }
  }
}

}  // namespace ampd::client
