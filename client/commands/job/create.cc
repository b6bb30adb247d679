#include "client/commands/job/create.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/find_job.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns advice for a job that no worker can run.
std::string AdviceOn(const Session& session, v1::PendingReason::Code reason, const std::string& id) {
  switch (reason) {
    case v1::PendingReason::NO_WORKERS:
      return "start a worker: ampd-worker --server ADDRESS, or ampctl dev";
    case v1::PendingReason::INSUFFICIENT_MEMORY:
      return "lower resources.memory_bytes in the job file, or start a worker with more memory";
    case v1::PendingReason::CAPABILITY_TOO_LOW:
      return "submit the job with a precision that a worker supports: --set precision.preset=auto";
    case v1::PendingReason::WORKER_UNAVAILABLE:
    case v1::PendingReason::WAITING_FOR_CHECKPOINT_WORKER:
      return "see the workers: " + session.Command("worker list");
    default:
      return id.empty() ? "see the workers and their devices: " + session.Command("worker list -o wide")
                        : "see what each device lacks: " + session.Command("job explain " + id);
  }
}

std::string ReasonAndAdvice(const Session& session, const v1::Pending& pending, const std::string& id) {
  return absl::StrCat(Printable(pending.message()), "  [", v1::PendingReason::Code_Name(pending.reason()),
                      "]\n  try: ", AdviceOn(session, pending.reason(), id));
}

std::string CheckRequestId(const std::string& text) {
  constexpr size_t kMaxBytes = 128;  // The server's limit, in server/coordinator/create_job.cc.
  return text.empty()              ? "the value must not be empty"
         : text.size() > kMaxBytes ? absl::StrCat("the value has ", text.size(), " bytes; the limit is ", kMaxBytes)
                                   : "";
}

}  // namespace

JobClient::Retry RetryOf(Session* session, absl::Duration retry_for) {
  return {retry_for, session->CancelledByInterrupt(), [session, retry_for](const absl::Status&) {
            session->Note(absl::StrCat("the server does not answer; retrying for ", absl::FormatDuration(retry_for)));
          }};
}

Argument RequestId(std::string* request_id) {
  return {.name = "--request-id",
          .value = request_id,
          .text = "ID",
          .help = "Idempotency key, such as a UUID: a repeat with the same key creates no second job (default: random)",
          .check = CheckRequestId};
}

std::string RequestIdOf(const std::string& request_id) { return request_id.empty() ? NewRequestId() : request_id; }

void ReportAccepted(Session* session, const v1::Job& job) {
  if (session->names_only() || !PrintStructured(*session, job)) {
    WriteText(Printable(job.id()) + "\n");
  }
  FlushOutput();
  const std::string id = Printable(job.id());
  session->Note(absl::StrCat(
      "submitted ", Printable(job.spec().name()), "\n  watch:   ", session->Command("job watch "), id,
      "\n  logs:    ", session->Command("job logs -f "), id, "\n  cancel:  ", session->Command("job cancel "), id));
  const std::string kept = RenderRetention(job, {absl::Now(), absl::LocalTimeZone()});
  if (!kept.empty()) {
    session->Note("  storage: " + kept);
  }
}

void WarnIfNoWorkerFits(const Session& session, JobClient* client, const v1::Job& job) {
  if (job.state() != v1::Job::QUEUED) {
    return;
  }
  const auto now = client->GetJob(job.id());
  if (now.ok() && now->pending().no_worker_fits()) {
    session.Warn(absl::StrCat("warning: no worker can run this job now, and it waits until one can: ",
                              ReasonAndAdvice(session, now->pending(), job.id())));
  }
}

void WarnIfNoWorkerWouldFit(const Session& session, const v1::Job& checked) {
  if (checked.pending().no_worker_fits()) {
    session.Warn(absl::StrCat("warning: no worker can run this job now, so it would wait until one can: ",
                              ReasonAndAdvice(session, checked.pending(), "")));
  }
}

Argument NewJobName(std::string* name) {
  return {.name = "--name",
          .value = name,
          .text = "NAME",
          .help = "Name of the new job (default: the name of the original job)"};
}

int CloneJob(Session* session, const CloneOptions& options) {
  const JobClient::Retry retry = RetryOf(session, kDefaultRetry);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const auto id = FindJobId(*client, options.id);
  if (!id.ok()) {
    return session->Fail(id.status());
  }
  v1::CloneJobRequest request;
  request.set_id(*id);
  request.set_name(options.name);
  request.set_request_id(RequestIdOf(options.request_id));
  request.set_from_last_checkpoint(options.from_last_checkpoint);
  const auto job = (*client)->CloneJob(request, retry);
  if (!job.ok()) {
    return session->Fail(job.status());
  }
  ReportAccepted(session, *job);
  WarnIfNoWorkerFits(*session, *client, *job);
  return kExitOk;
}

}  // namespace ampd::client
