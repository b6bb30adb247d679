#include "client/commands/job/change.h"

#include "client/commands/find_job.h"
#include "client/terminal/output.h"

namespace ampd::client {

std::string StateName(const v1::Job& job) { return v1::Job::State_Name(job.state()); }

int ChangeJobs(Session* session, const std::vector<std::string>& ids, const JobChange& change) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  int exit_code = kExitOk;
  JobResults results(session, ids.size());
  for (const std::string& id : ids) {
    const auto found = FindJobId(*client, id);
    const auto job = found.ok() ? change.call(*client, *found) : found.status();
    if (!job.ok()) {
      const int failed = session->Fail(job.status());
      exit_code = exit_code == kExitOk ? failed : exit_code;
      if (IsUnanswered(job.status())) {
        return exit_code;
      }
      continue;
    }
    results.Add(*job, change.text(*job));
    if (const std::string note = change.note == nullptr ? "" : change.note(*job); !note.empty()) {
      session->Note(note);
    }
  }
  return exit_code;
}

}  // namespace ampd::client
