#include <vector>

#include "client/commands/call.h"
#include "client/commands/worker/worker.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

int ListWorkers(Session* session) {
  return CallAndShow(
      session, [](JobClient* client) { return client->ListWorkers(); },
      [&](const std::vector<v1::Worker>& workers) { PrintWorkers(*session, workers); });
}

}  // namespace

Command ListWorkersCommand() {
  return {.name = "list", .alias = "ls", .help = "List workers", .formats = AllFormats(), .run = ListWorkers};
}

}  // namespace ampd::client
