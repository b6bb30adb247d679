#include "client/commands/worker/change_worker.h"

#include "client/commands/call.h"
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

int ChangeWorker(Session* session, const std::string& name,
                 const std::function<absl::StatusOr<v1::Worker>(JobClient*, const std::string&)>& call) {
  return CallAndShow(
      session, [&](JobClient* client) { return call(client, name); },
      [&](const v1::Worker& worker) { PrintWorkers(*session, {worker}); });
}

}  // namespace ampd::client
