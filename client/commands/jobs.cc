#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/commands/commands.h"
#include "client/commands/output.h"
#include "client/render/job_text.h"
#include "client/render/table.h"
#include "client/render/watch_screen.h"

namespace ampd::client {
namespace {

// Runs `show` on what `call` answers, or prints the error.
template <typename Call, typename Show>
int CallAndShow(Session* session, Call call, Show show) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const auto answer = call(*client);
  if (!answer.ok()) {
    return session->Fail(answer.status());
  }
  show(*answer);
  return kExitOk;
}

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

bool AskToDelete(size_t count) {
  std::fprintf(stderr, "delete %zu job(s) with history and checkpoints? [y/N] ", count);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

void ShowExplanation(const Session& session, const std::string& id, const v1::ExplainJobResponse& answer) {
  if (PrintStructured(session, answer)) {
    return;
  }
  const bool pending = answer.reason() != v1::NOT_PENDING && answer.reason() != v1::PENDING_REASON_UNSPECIFIED;
  std::printf("%s  %s%s\n%s\n", id.c_str(), StateText(answer.state(), session.palette()).c_str(),
              pending ? ("  " + v1::PendingReason_Name(answer.reason())).c_str() : "",
              Printable(answer.message()).c_str());
  if (answer.jobs_ahead() > 0) {
    std::printf("%d %s ahead of it\n", answer.jobs_ahead(), answer.jobs_ahead() == 1 ? "job is" : "jobs are");
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::DeviceVerdict& verdict : answer.devices()) {
    rows.push_back({Printable(verdict.worker()), Printable(verdict.device()), v1::PendingReason_Name(verdict.reason()),
                    Printable(verdict.message())});
  }
  if (!rows.empty()) {
    std::fputs(RenderTable({"WORKER", "DEVICE", "REASON", "WHY"}, rows, !session.options().no_headers).c_str(), stdout);
  }
}

}  // namespace

int ListJobs(Session* session, const ListOptions& options) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListJobs(options.filter, options.limit); },
      [&](const std::vector<v1::Job>& jobs) { PrintJobs(*session, jobs); });
}

int ShowJob(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->GetJob(id); },
      [&](const v1::Job& job) { PrintJob(*session, job); });
}

int Explain(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ExplainJob(id); },
      [&](const v1::ExplainJobResponse& answer) { ShowExplanation(*session, id, answer); });
}

int Points(Session* session, const std::string& id, int downsample_to) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListMetricPoints(id, downsample_to); },
      [&](const v1::ListMetricPointsResponse& answer) {
        if (PrintStructured(*session, answer)) {
          return;
        }
        std::vector<std::vector<std::string>> rows;
        for (const auto& segment : answer.segments()) {
          const v1::StepColumns& steps = segment.steps();
          for (int i = 0; i < std::min({steps.step_size(), steps.loss_size(), steps.loss_scale_size(),
                                        steps.skipped_size(), steps.grad_norm_size()});
               ++i) {
            rows.push_back({absl::StrCat(segment.attempt()), absl::StrCat(steps.step(i)), FormatNumber(steps.loss(i)),
                            FormatNumber(steps.grad_norm(i)), FormatNumber(steps.loss_scale(i)),
                            steps.skipped(i) ? "skipped" : ""});
          }
        }
        std::fputs(RenderTable({"ATTEMPT", "STEP", "LOSS", "GRAD NORM", "SCALE", "SKIPPED"}, rows,
                               !session->options().no_headers)
                       .c_str(),
                   stdout);
      });
}

int Events(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListEvents(id); },
      [&](const v1::ListEventsResponse& answer) {
        if (PrintStructured(*session, answer)) {
          return;
        }
        for (const v1::Event& event : answer.events()) {
          const absl::Time time = absl::FromUnixMicros(event.time_unix_micros());
          std::printf("%s  %s\n", absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone()).c_str(),
                      RenderEvent(event).c_str());
        }
      });
}

int ApplyVerb(Session* session, JobVerb verb, const std::vector<std::string>& ids, bool confirmed) {
  if (verb == JobVerb::kDelete && !confirmed) {
    if (isatty(STDIN_FILENO) != 1) {
      return session->Fail(absl::InvalidArgumentError(absl::StrCat(
          "deleting needs --yes when nobody can be asked: ampctl job delete --yes ", absl::StrJoin(ids, " "))));
    }
    if (!AskToDelete(ids.size())) {
      session->Note("nothing was deleted");
      return kExitFailure;
    }
  }
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  int exit_code = kExitOk;
  for (const std::string& id : ids) {
    const auto job = CallVerb(*client, verb, id);
    if (!job.ok()) {
      const int failed = session->Fail(job.status());
      exit_code = exit_code == kExitOk ? failed : exit_code;
    } else if (!PrintStructured(*session, *job)) {
      const std::string state = verb == JobVerb::kDelete ? "deleted" : v1::Job::State_Name(job->state());
      std::printf("%s%s\n", id.c_str(), session->options().quiet ? "" : ("  " + state).c_str());
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

int Health(Session* session) {
  const auto client = session->Client();
  const absl::Status healthy = client.ok() ? (*client)->CheckHealth("") : client.status();
  if (!healthy.ok()) {
    return session->Fail(healthy);
  }
  if (!session->options().quiet) {
    std::printf("%s is serving\n", (*client)->address().c_str());
  }
  return kExitOk;
}

int AddContext(Session* session, const std::string& name, const std::string& address) {
  auto contexts = ReadContexts(ContextsPath());
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  if (name == "current" || name.find_first_of(" \t\n:") != std::string::npos || colon == 0 ||
      colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535 ||
      address.find_first_of(" \t\n") != std::string::npos) {
    return session->Fail(absl::InvalidArgumentError(absl::StrCat(
        "a context is one word other than 'current', and HOST:PORT, not '", name, "' and '", address, "'")));
  }
  contexts->addresses[name] = address;
  contexts->current = contexts->current.empty() ? name : contexts->current;
  const absl::Status written = WriteContexts(ContextsPath(), *contexts);
  if (!written.ok()) {
    return session->Fail(written);
  }
  session->Note(contexts->current == name ? absl::StrCat("context ", name, " is in use")
                                          : absl::StrCat("use it with: ampctl context use ", name));
  return kExitOk;
}

int UseContext(Session* session, const std::string& name) {
  auto contexts = ReadContexts(ContextsPath());
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  if (!contexts->addresses.contains(name)) {
    return session->Fail(
        Error(absl::StatusCode::kNotFound, "CONTEXT_NOT_FOUND", absl::StrCat("there is no context '", name, "'")));
  }
  contexts->current = name;
  const absl::Status written = WriteContexts(ContextsPath(), *contexts);
  return written.ok() ? kExitOk : session->Fail(written);
}

int ListContexts(Session* session) {
  const auto contexts = ReadContexts(ContextsPath());
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, address] : contexts->addresses) {
    rows.push_back({name == contexts->current ? "*" : " ", name, address});
  }
  if (rows.empty()) {
    session->Note("no contexts; name a server with: ampctl context add NAME HOST:PORT");
    return kExitOk;
  }
  std::fputs(RenderTable({" ", "NAME", "ADDRESS"}, rows, !session->options().no_headers).c_str(), stdout);
  return kExitOk;
}

int ShowContext(Session* session) {
  const auto address = ResolveAddress(session->options().address);
  if (!address.ok()) {
    return session->Fail(address.status());
  }
  std::printf("%s  (from %s)\n", address->address.c_str(), address->origin.c_str());
  return kExitOk;
}

}  // namespace ampd::client
