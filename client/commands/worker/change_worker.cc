#include "client/commands/worker/change_worker.h"

#include "client/commands/call.h"
#include "client/commands/checks.h"
#include "client/commands/suggestions.h"
#include "client/terminal/output.h"

namespace ampd::client {

Argument WorkerName(std::string* name) {
  return {.name = "name",
          .value = name,
          .text = "NAME",
          .help = "Name of the worker, as in ampctl worker list",
          .required = true,
          .suggest = SuggestWorkers};
}

absl::Status WithMeantWorker(JobClient* client, const absl::Status& status, const std::string& name) {
  std::vector<std::string> names;
  const auto workers = absl::IsNotFound(status) ? client->ListWorkers() : status;
  for (const v1::Worker& worker : workers.ok() ? *workers : std::vector<v1::Worker>()) {
    names.push_back(worker.name());
  }
  return WithMeantName(status, name, names);
}

int ChangeWorker(Session* session, const std::string& name,
                 const std::function<absl::StatusOr<v1::Worker>(JobClient*, const std::string&)>& call) {
  return CallAndShow(
      session,
      [&](JobClient* client) {
        absl::StatusOr<v1::Worker> worker = call(client, name);
        return worker.ok() ? worker : WithMeantWorker(client, worker.status(), name);
      },
      [&](const v1::Worker& worker) { PrintWorkers(*session, {worker}); });
}

}  // namespace ampd::client
