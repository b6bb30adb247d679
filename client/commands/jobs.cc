#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/call.h"
#include "client/commands/commands.h"
#include "client/render/format.h"
#include "client/terminal/confirm.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

absl::StatusOr<v1::Job> CallVerb(JobClient* client, JobVerb verb, const std::string& id) {
  switch (verb) {
    case JobVerb::kCancel:
      return client->CancelJob(id);
    case JobVerb::kPause:
      return client->PauseJob(id);
    case JobVerb::kResume:
      return client->ResumeJob(id);
    case JobVerb::kDelete:
      break;
  }
  const absl::Status deleted = client->DeleteJob(id);
  if (!deleted.ok()) {
    return deleted;
  }
  v1::Job job;
  job.set_id(id);
  return job;
}

// Warns if there are more jobs than were printed, and shows how to list them.
void NoteTruncation(const Session& session, const JobClient::JobList& list) {
  if (list.next_page_token.empty()) {
    return;
  }
  const std::string total = list.total_size > 0 ? absl::StrCat(" of ", list.total_size) : "";
  session.Warn(absl::StrCat(list.jobs.size(), total, " jobs", total.empty() ? ", and there are more" : "",
                            "; the next: --page-token ", Printable(list.next_page_token), ", all: --limit 0"));
}

}  // namespace

int ListJobs(Session* session, const ListOptions& options) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListJobs(options.filter, options.limit, options.page_token); },
      [&](const JobClient::JobList& list) {
        PrintJobs(*session, list, options.filter);
        NoteTruncation(*session, list);
      });
}

int ShowJob(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->GetJob(id); },
      [&](const v1::Job& job) { PrintJob(*session, job); });
}

int ApplyVerb(Session* session, JobVerb verb, const std::vector<std::string>& ids, bool confirmed) {
  if (verb == JobVerb::kDelete && !confirmed) {
    if (!CanAsk()) {
      return session->Fail(absl::InvalidArgumentError(absl::StrCat(
          "deleting needs --yes when nobody can be asked: ampctl job delete --yes ", absl::StrJoin(ids, " "))));
    }
    if (!Confirm(absl::StrCat("delete ", ids.size(), " job(s) with history and checkpoints?"))) {
      session->Note("nothing was deleted");
      return kExitFailure;
    }
  }
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  int exit_code = kExitOk;
  JobResults results(session, ids.size());
  for (const std::string& id : ids) {
    const auto job = CallVerb(*client, verb, id);
    if (!job.ok()) {
      const int failed = session->Fail(job.status());
      exit_code = exit_code == kExitOk ? failed : exit_code;
    } else {
      results.Add(*job, verb == JobVerb::kDelete ? "deleted" : v1::Job::State_Name(job->state()));
      if (verb == JobVerb::kCancel && (job->state() == v1::Job::SUCCEEDED || job->state() == v1::Job::FAILED)) {
        session->Note(id + " had ended before; nothing was changed");
      }
    }
  }
  return exit_code;
}

int ListWorkers(Session* session) {
  return CallAndShow(
      session, [](JobClient* client) { return client->ListWorkers(); },
      [&](const std::vector<v1::Worker>& workers) { PrintWorkers(*session, workers); });
}

int SetDrained(Session* session, const std::string& worker, bool drained) {
  return CallAndShow(
      session, [&](JobClient* client) { return drained ? client->DrainWorker(worker) : client->UndrainWorker(worker); },
      [&](const v1::Worker& answer) { PrintWorkers(*session, {answer}); });
}

int RemoveWorker(Session* session, const std::string& worker) {
  const auto client = session->Client();
  const absl::Status removed = client.ok() ? (*client)->RemoveWorker(worker) : client.status();
  if (!removed.ok()) {
    return session->Fail(removed);
  }
  if (session->options().quiet || session->options().output == OutputFormat::kName) {
    std::printf("%s\n", Printable(worker).c_str());
  } else if (!PrintStructured(*session, PlainFields{{"name", worker}, {"removed", true}})) {
    std::printf("%s  removed\n", Printable(worker).c_str());
  }
  return kExitOk;
}

}  // namespace ampd::client
