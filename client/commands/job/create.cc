#include "client/commands/job/create.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"

namespace ampd::client {

JobClient::Retry RetryOf(Session* session, absl::Duration retry_for) {
  return {retry_for, session->CancelledByInterrupt(), [session, retry_for](const absl::Status&) {
            session->Note(absl::StrCat("the server does not answer; retrying for ", absl::FormatDuration(retry_for)));
          }};
}

void ReportAccepted(Session* session, const v1::Job& job) {
  if (session->names_only() || !PrintStructured(*session, job)) {
    std::printf("%s\n", job.id().c_str());
  }
  std::fflush(stdout);
  session->Note(absl::StrCat("submitted ", Printable(job.spec().name()), "\n  watch:   ampctl job watch ", job.id(),
                             "\n  logs:    ampctl job logs -f ", job.id(), "\n  cancel:  ampctl job cancel ",
                             job.id()));
  const std::string kept = RenderRetention(job, {absl::Now(), absl::LocalTimeZone()});
  if (!kept.empty()) {
    session->Note("  kept:    " + kept);
  }
}

Argument NewJobName(std::string* name) {
  return {.name = "--name", .value = name, .text = "NAME", .help = "Name of the created job (default: the same name)"};
}

int CloneJob(Session* session, const CloneOptions& options) {
  const JobClient::Retry retry = RetryOf(session, kDefaultRetry);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::CloneJobRequest request;
  request.set_id(options.id);
  request.set_name(options.name);
  request.set_request_id(NewRequestId());
  request.set_from_last_checkpoint(options.from_last_checkpoint);
  const auto job = (*client)->CloneJob(request, retry);
  if (!job.ok()) {
    return session->Fail(job.status());
  }
  ReportAccepted(session, *job);
  return kExitOk;
}

}  // namespace ampd::client
