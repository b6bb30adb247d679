#include "client/commands/job/follow/reconnect.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "client/commands/find_job.h"

namespace ampd::client {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

// Returns the id of the job that `text` names. Unlike FindJobId, asks the server even if `text` has the form of an id.
absl::StatusOr<std::string> AskForJobId(JobClient* client, const std::string& text) {
  absl::StatusOr<std::string> id = FindJobId(client, text);
  if (id.ok() && *id == text) {
    const auto job = client->GetJob(text);
    return job.ok() ? id : job.status();
  }
  return id;
}

}  // namespace

Argument ReconnectFor(std::optional<absl::Duration>* retry_for) {
  return {.name = "--retry-for",
          .value = retry_for,
          .text = "DURATION",
          .help =
              "How long to keep trying when the server does not answer (default: 1m after the connection was lost, and "
              "only one try at the start)"};
}

Patience PatienceOf(const std::optional<absl::Duration>& retry_for) {
  return retry_for.has_value() ? Patience{.before_first_answer = *retry_for, .after_loss = *retry_for} : Patience();
}

absl::StatusOr<std::string> FindJobIdPatiently(Session* session, JobClient* client, const std::string& text,
                                               const Patience& patience) {
  if (patience.before_first_answer <= absl::ZeroDuration()) {
    return FindJobId(client, text);
  }
  const absl::Duration end = SystemClock().SinceBoot() + patience.before_first_answer;
  absl::Duration pause = kFirstPause;
  while (true) {
    absl::StatusOr<std::string> id = AskForJobId(client, text);
    if (!absl::IsUnavailable(id.status()) || SystemClock().SinceBoot() + pause > end) {
      return id;
    }
    if (pause == kFirstPause) {
      session->Note(absl::StrCat("the server does not answer; retrying for ",
                                 absl::FormatDuration(patience.before_first_answer)));
    }
    if (session->CancelledByInterrupt()->WaitFor(pause)) {
      return absl::CancelledError("interrupted before the server answered");
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace ampd::client
